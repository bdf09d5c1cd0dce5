"""How a variant's own tensors relate to the signature's: names, dtypes, axes. Found by looking and by trying.

ONNX and OpenVINO files keep the source's names and axes. TFLite files may have other names, another order and
channels-last tensors; no rule says which, so every plausible arrangement of the inputs is run on a few samples and the
one whose outputs are nearest to the source's is taken (the identity first, then channels-last, on a tie). What stays
far from the source is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edge_contracts.tensor_conversion import input_converter, inverse_permutation, output_converter
from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec
from packager.errors import RuntimeRefused
from packager.file_runtimes import FileTensor
from packager.samples import Array, Sample

MAX_ARRANGEMENTS = 32
MAX_DISTANCE = 0.2
"""1 - cosine on a sample: a wrong arrangement is nearly always further away, a rough int8 variant nearer."""
TIE = 1e-6


@dataclass(frozen=True)
class Bindings:
    """Of all inputs and outputs, in the signature's order."""

    inputs: list[TensorBinding]
    outputs: list[TensorBinding]

    def to_file(self, signature: Signature, row: Sample) -> Sample:
        """A request as the file takes it."""
        dtypes = {spec.name: spec.dtype for spec in signature.inputs}
        return {b.source_name: input_converter(b, dtypes[b.name])(row[b.name]) for b in self.inputs}

    def from_file(self, signature: Signature, answer: Sample) -> Sample:
        """An answer of the file as the signature has it."""
        dtypes = {spec.name: spec.dtype for spec in signature.outputs}
        return {b.name: output_converter(b, dtypes[b.name])(answer[b.source_name]) for b in self.outputs}

    def frozen(self, signature: Signature) -> dict[str, int]:
        """Symbolic dimensions that the file has fixed, by name."""
        specs = {spec.name: spec for spec in [*signature.inputs, *signature.outputs]}
        pairs = ((a, b) for t in self.inputs for a, b in zip(specs[t.name].shape, t.shape, strict=True))
        return {dim: size for dim, size in pairs if isinstance(dim, str) and isinstance(size, int)}


def by_name(runtime: str, signature: Signature, inputs: list[FileTensor], outputs: list[FileTensor]) -> Bindings:
    """For files that keep names and axes. Raises RuntimeRefused naming a tensor that is not there."""
    return Bindings(
        [_named(runtime, spec, inputs, "input") for spec in signature.inputs],
        [_named(runtime, spec, outputs, "output") for spec in signature.outputs],
    )


def arrangements(signature: Signature, inputs: list[FileTensor]) -> Iterator[list[TensorBinding]]:
    """Plausible bindings of all inputs, the likeliest first, at most MAX_ARRANGEMENTS."""
    matched = _matched(signature.inputs, inputs)
    choices = [list(_candidates(spec, tensor)) for spec, tensor in zip(signature.inputs, matched, strict=True)]
    yield from (list(choice) for choice in itertools.islice(itertools.product(*choices), MAX_ARRANGEMENTS))


def nearest_outputs(
    signature: Signature, outputs: list[FileTensor], expected: Sequence[Sample], answers: Sequence[Sample]
) -> tuple[list[TensorBinding], float]:
    """The bindings of the outputs nearest to the source's answers, and how far the worst one is (1 - cosine)."""
    matched = _matched(signature.outputs, outputs)
    bindings: list[TensorBinding] = []
    worst = 0.0
    for spec, tensor in zip(signature.outputs, matched, strict=True):
        ranked = [
            (_distance(candidate, spec, expected, answers), order, candidate)
            for order, candidate in enumerate(_candidates(spec, tensor))
        ]
        if not ranked:
            return [], float("inf")
        best = min(distance for distance, _, _ in ranked)
        distance, _, chosen = next(item for item in ranked if item[0] <= best + TIE)
        bindings.append(chosen)
        worst = max(worst, distance)
    return bindings, worst


def frozen_to_one_sample(bindings: Bindings, signature: Signature, axis: str) -> Bindings:
    """The same with the leading axis declared as 1: the device sends such a variant one sample at a time."""

    def fixed(binding: TensorBinding, spec: TensorSpec | None) -> TensorBinding:
        if spec is None or not spec.shape or spec.shape[0] != axis:
            return binding
        return TensorBinding(
            name=binding.name, source_name=binding.source_name, dtype=binding.dtype, shape=[1, *binding.shape[1:]],
            permutation=binding.permutation, scale=binding.scale, zero_point=binding.zero_point,
        )  # fmt: skip

    return Bindings(
        [fixed(binding, signature.input(binding.name)) for binding in bindings.inputs],
        [fixed(binding, signature.output(binding.name)) for binding in bindings.outputs],
    )


def _named(runtime: str, spec: TensorSpec, tensors: list[FileTensor], what: str) -> TensorBinding:
    tensor = next((tensor for tensor in tensors if tensor.name == spec.name), None)
    if tensor is None:
        raise RuntimeRefused(runtime, f"has no {what} {spec.name!r} in the file, only {[t.name for t in tensors]}")
    return _binding(spec, tensor, None)


def _binding(spec: TensorSpec, tensor: FileTensor, permutation: list[int] | None) -> TensorBinding:
    shape = list(spec.shape)
    if tensor.shape is not None and len(tensor.shape) == len(shape):
        own: Sequence[int] = (
            tensor.shape if permutation is None else [tensor.shape[i] for i in inverse_permutation(permutation)]
        )
        shape = [size if size >= 0 and isinstance(dim, str) else dim for dim, size in zip(shape, own, strict=True)]
    return TensorBinding(
        name=spec.name, source_name=tensor.name, dtype=tensor.dtype, shape=shape, permutation=permutation,
        scale=tensor.scale, zero_point=tensor.zero_point,
    )  # fmt: skip


def _matched(specs: Sequence[TensorSpec], tensors: list[FileTensor]) -> list[FileTensor]:
    """A file tensor for each, by name as converters write it, what is left over in order."""
    left = list(tensors)
    found: dict[str, FileTensor] = {}
    for same in (lambda a, b: a == b, lambda a, b: _plain(a) == _plain(b)):
        for spec in specs:
            match = next((t for t in left if spec.name not in found and same(spec.name, t.name)), None)
            if match is not None:
                found[spec.name] = match
                left.remove(match)
    for spec in specs:
        if spec.name not in found and left:
            fitting = next((t for t in left if t.shape is not None and len(t.shape) == len(spec.shape)), left[0])
            found[spec.name] = fitting
            left.remove(fitting)
    if len(found) < len(specs):
        raise RuntimeRefused("tflite", f"has {len(tensors)} inputs or outputs, the source model has {len(specs)}")
    return [found[spec.name] for spec in specs]


def _plain(name: str) -> str:
    """What is left of a name after converters put it in order: ``serving_default_x:0`` and ``x`` are one."""
    bare = re.sub(r":\d+$", "", name).removeprefix("serving_default_")
    return re.sub(r"[^a-z0-9]+", "_", bare.lower()).strip("_")


def _candidates(spec: TensorSpec, tensor: FileTensor) -> Iterator[TensorBinding]:
    for permutation in _permutations(len(spec.shape)):
        if tensor.shape is None or _fits(spec.shape, tensor.shape, permutation):
            identity = permutation == list(range(len(permutation)))
            yield _binding(spec, tensor, None if identity else permutation)


def _permutations(rank: int) -> list[list[int]]:
    identity = list(range(rank))
    last, first = [0, *identity[2:], 1], [0, rank - 1, *identity[1:-1]]
    likely = [identity, last, first] if rank > 2 else [identity]
    rest = [list(p) for p in itertools.permutations(identity)] if rank == 3 else []
    return [p for index, p in enumerate(likely + rest) if p not in (likely + rest)[:index]]


def _fits(shape: Sequence[int | str], file_shape: Sequence[int], permutation: Sequence[int]) -> bool:
    if len(shape) != len(file_shape):
        return False
    arranged = [shape[axis] for axis in permutation]
    return all(size < 0 or isinstance(dim, str) or dim == size for dim, size in zip(arranged, file_shape, strict=True))


def _distance(binding: TensorBinding, spec: TensorSpec, expected: Sequence[Sample], answers: Sequence[Sample]) -> float:
    convert = output_converter(binding, spec.dtype)
    total = 0.0
    for want, got in zip(expected, answers, strict=True):
        if binding.source_name not in got:
            return float("inf")
        actual = convert(got[binding.source_name])
        if actual.shape != want[spec.name].shape:
            return float("inf")
        total = max(total, _cosine_distance(want[spec.name], actual))
    return total


def _cosine_distance(want: Array, got: Array) -> float:
    if want.dtype.kind not in "fiub":
        return float(np.mean(want != got)) if want.size else 0.0
    a, b = np.nan_to_num(want.astype(np.float64).ravel()), np.nan_to_num(got.astype(np.float64).ravel())
    if np.allclose(a, b, rtol=1e-3, atol=1e-5):
        return 0.0
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return 1.0 - float(a @ b) / norm if norm else 1.0
