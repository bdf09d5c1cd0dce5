"""A variant opened in a backend and driven in the bundle's own terms. Imports NumPy: for engines and trials only.

``infer`` takes and gives tensors in the signature's names, layouts and dtypes. What a variant's file wants differently
(permutation, dtype, quantisation, a frozen leading axis) is applied here, once, inside the measured time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.errors import BackendError, ProviderFellBack
from agent.inference.backend import BATCH_OPTION, Backend, BackendSession, Options
from agent.inference.bundle_folder import BundleFolder
from agent.inference.confinement import confine_threads
from edge_contracts.bundle import Variant, VariantSpec
from edge_contracts.errors import MalformedTensor
from edge_contracts.golden import decode_goldens
from edge_contracts.parity import to_array
from edge_contracts.tensor_conversion import input_converter, output_converter
from edge_contracts.tensor_signature import Signature, TensorSpec

Array = NDArray[Any]
WARM_UP_RUNS = 3


class ModelSession:
    """Used by one thread at a time. Arrays given stay the caller's; arrays returned are the caller's."""

    def __init__(
        self, backend: str, session: BackendSession, signature: Signature, variant: VariantSpec, options: Options,
        goldens_file: Path | None = None,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._session = session
        self._signature = signature
        self._wanted_provider = options.get("provider")
        self._goldens_file = goldens_file
        self._inputs = [
            (b.name, b.source_name, input_converter(b, _wire_dtype(signature.input(b.name), b.dtype)))
            for b in variant.inputs
        ]
        self._outputs = [
            (b.name, b.source_name, output_converter(b, _wire_dtype(signature.output(b.name), b.dtype)))
            for b in variant.outputs
        ]
        self._chunk = frozen_leading_axis(signature, variant)

    @property
    def provider(self) -> str:
        """The provider or device in effect, as the runtime tells."""
        return self._session.provider

    def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference; outputs keep the file's dtypes turned back to the signature's.

        Raises BackendError: an input is missing or has a shape that this variant's file cannot take, or the run fails.
        """
        if self._chunk is None:
            return self._infer_once(inputs)
        axis, size = self._chunk
        return self._infer_in_chunks(inputs, axis, size)

    def warm_up(self, runs: int = WARM_UP_RUNS) -> None:
        """Run the first golden ``runs`` times, then check that the provider is still the one that was asked for.

        Raises BackendError, ProviderFellBack, MalformedBundle (broken goldens).
        """
        if self._goldens_file is not None:
            goldens = decode_goldens(self._goldens_file.read_bytes())
            first = {tensor.name: to_array(tensor) for tensor in goldens[0].inputs} if goldens else None
            for _ in range(runs if first is not None else 0):
                assert first is not None
                self.infer(first)
        self.check_provider()

    def check_provider(self) -> None:
        """Raises ProviderFellBack when the runtime silently runs on something else than asked for."""
        if self._wanted_provider is not None and self.provider != self._wanted_provider:
            raise ProviderFellBack(self._backend, str(self._wanted_provider), self.provider)

    def close(self) -> None:
        """Free the model; no other call follows."""
        self._session.close()

    def _infer_once(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        try:
            feeds = {source: convert(inputs[name]) for name, source, convert in self._inputs}
        except KeyError as error:
            raise BackendError(self._backend, f"input {error.args[0]!r} is missing") from error
        except (ValueError, UnicodeDecodeError, MalformedTensor) as error:
            raise BackendError(self._backend, f"an input does not fit the model: {error}") from error
        results = self._session.run(feeds)
        try:
            return {name: convert(results[source]) for name, source, convert in self._outputs}
        except KeyError as error:
            raise BackendError(self._backend, f"the model has no output {error.args[0]!r}") from error
        except ValueError as error:
            raise BackendError(
                self._backend, f"an output does not have the shape it is said to have: {error}"
            ) from error

    def _infer_in_chunks(self, inputs: Mapping[str, Array], axis: str, size: int) -> dict[str, Array]:
        batched = [spec.name for spec in self._signature.inputs if leads_with(spec, axis) and spec.name in inputs]
        total = max((int(inputs[name].shape[0]) for name in batched), default=size)
        if total == size:
            return self._infer_once(inputs)
        if total == 0:
            raise BackendError(self._backend, f"an empty batch: {batched[0]!r} has no samples")
        parts = [
            self._infer_once({**inputs, **{name: _slice(inputs[name], start, size) for name in batched}})
            for start in range(0, total, size)
        ]
        return {name: self._join(name, axis, [part[name] for part in parts], total) for name, _, _ in self._outputs}

    def _join(self, name: str, axis: str, parts: list[Array], total: int) -> Array:
        spec = self._signature.output(name)
        if len(parts) == 1 and (spec is None or not leads_with(spec, axis)):
            return parts[0]
        if spec is None or not leads_with(spec, axis):
            raise BackendError(
                self._backend, f"output {name!r} does not carry the batch: this variant takes one sample at a time"
            )
        return np.concatenate(parts)[:total]


def open_session(backend: Backend, folder: BundleFolder, variant: Variant, options: Options) -> ModelSession:
    """Open a laid-out variant; threads it starts stay on the caller's CPUs. Raises BackendError and its kinds."""
    options = {key: value for key, value in options.items() if key != BATCH_OPTION}
    session = backend.open(folder.variant_folder(variant.name), variant.spec, options)
    confine_threads()
    model = ModelSession(
        backend.name, session, folder.bundle.spec.signature, variant.spec, options, folder.goldens_file
    )
    try:
        model.check_provider()
    except ProviderFellBack:
        model.close()
        raise
    return model


def frozen_leading_axis(signature: Signature, variant: VariantSpec) -> tuple[str, int] | None:
    """Name and size of a leading axis that the signature leaves open and the variant's file has fixed."""
    for binding in variant.inputs:
        spec = signature.input(binding.name)
        if spec is None or not spec.shape or not binding.shape:
            continue
        wanted, frozen = spec.shape[0], binding.shape[0]
        if isinstance(wanted, str) and isinstance(frozen, int) and frozen > 0:
            return wanted, frozen
    return None


def leads_with(spec: TensorSpec, axis: str) -> bool:
    """Whether the tensor's first dimension is that symbolic one."""
    return bool(spec.shape) and spec.shape[0] == axis


def _slice(array: Array, start: int, size: int) -> Array:
    """``size`` rows from ``start``; a short last slice is filled up with its last row, which ``_join`` cuts off."""
    part = array[start : start + size]
    missing = size - part.shape[0]
    return part if missing <= 0 else np.concatenate([part, np.repeat(part[-1:], missing, axis=0)])


def _wire_dtype(spec: TensorSpec | None, otherwise: str) -> str:
    return otherwise if spec is None else spec.dtype
