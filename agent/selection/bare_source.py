"""``python -m agent.selection.bare_source FILE RUNTIME OUT [NAME=SIZES ...]``: read a bare model file, make goldens.

A child process: reading imports a runtime. Writes OUT/goldens.bin (seeded inputs with the runtime's own answers) and
prints one JSON BareSource. Exit 1 with one line on stderr when the file cannot be read or run.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from agent.errors import BackendError
from agent.inference.file_signature import read_precision, read_signature
from agent.inference.lookup import backend
from agent.selection.bare_source_form import BareSource, bound
from edge_contracts.bundle import VariantSpec
from edge_contracts.golden import Golden, encode_goldens
from edge_contracts.parity import to_tensor
from edge_contracts.tensor_signature import BYTES, NUMPY_NAME, Signature, TensorSpec

GOLDENS = 8
SEED = 20240229
GUESSES = (224, 16, 32, 48, 64, 128, 1)
"""Sizes tried for dimensions that the file leaves open, the first (batch) apart, until it runs."""


def main(argv: Sequence[str]) -> int:
    """See the module."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file, runtime, out = Path(argv[0]), argv[1], Path(argv[2])
    fixed = {name: [int(size) for size in sizes.split(",")] for name, _, sizes in (a.partition("=") for a in argv[3:])}
    try:
        signature = read_signature(file, runtime)
        goldens = make_goldens(file, runtime, signature, fixed)
        source = BareSource(signature=signature, precision=read_precision(file, runtime))
    except BackendError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    (out / "goldens.bin").write_bytes(encode_goldens(goldens, model=file.stem))
    sys.stdout.write(msgspec.json.encode(source).decode() + "\n")
    return 0


def make_goldens(file: Path, runtime: str, signature: Signature, fixed: Mapping[str, Sequence[int]]) -> list[Golden]:
    """Raises BackendError when no guess of the open dimensions runs."""
    driver = backend(runtime)
    session = driver.open(file.parent, _variant(file, runtime, signature), {"threads": 1})
    last: BackendError | None = None
    try:
        for guess in GUESSES if _is_open(signature, fixed) else GUESSES[-1:]:
            try:
                return [_golden(session, signature, fixed, guess, SEED + number) for number in range(GOLDENS)]
            except BackendError as error:
                last = error
    finally:
        session.close()
    raise BackendError(runtime, f"{file.name} ran with no size tried for its open dimensions; "
                       f"give them: --fixed-shape NAME=1,3,224,224 ({last})")  # fmt: skip


def _golden(session: Any, signature: Signature, fixed: Mapping[str, Sequence[int]], guess: int, seed: int) -> Golden:
    rng = np.random.default_rng(seed)
    inputs = {spec.name: _input(rng, spec, shape_of(spec, fixed, guess)) for spec in signature.inputs}
    outputs = session.run(inputs)
    return Golden(
        [to_tensor(name, array) for name, array in inputs.items()],
        [to_tensor(spec.name, outputs[spec.name]) for spec in signature.outputs],
    )


def shape_of(spec: TensorSpec, fixed: Mapping[str, Sequence[int]], guess: int) -> tuple[int, ...]:
    """The shape of one sample: as told, else 1 for an open first dimension and ``guess`` for other open ones."""
    if spec.name in fixed:
        return tuple(fixed[spec.name])
    return tuple(size if isinstance(size, int) else (1 if axis == 0 else guess) for axis, size in enumerate(spec.shape))


def _input(rng: np.random.Generator, spec: TensorSpec, shape: tuple[int, ...]) -> Any:
    """Floats in 0..1; integers 0 or 1, which are valid ids in every vocabulary and valid masks."""
    if spec.dtype == BYTES:
        array = np.empty(shape, dtype=object)
        array[...] = b"text"
        return array
    dtype = np.dtype(NUMPY_NAME[spec.dtype])
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def _is_open(signature: Signature, fixed: Mapping[str, Sequence[int]]) -> bool:
    return any(isinstance(size, str) for spec in signature.inputs if spec.name not in fixed for size in spec.shape[1:])


def _variant(file: Path, runtime: str, signature: Signature) -> VariantSpec:
    return VariantSpec(
        name="source", runtime=runtime, target="cpu", precision="fp32", entry=file.name,
        inputs=[bound(spec) for spec in signature.inputs], outputs=[bound(spec) for spec in signature.outputs],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
