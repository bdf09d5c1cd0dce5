"""Inputs and outputs of an ONNX graph as a signature: names, dtypes, shapes with symbolic dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_contracts.tensor_signature import Signature, TensorSpec
from packager.errors import ModelRefused

DTYPES = {
    1: "FP32", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 8: "BYTES", 9: "BOOL",
    10: "FP16", 11: "FP64", 12: "UINT32", 13: "UINT64",
}  # fmt: skip
UNNAMED = {"", "?", "-1", "None"}
"""What exporters write for a dimension without a name: two of them need not be equal."""
_KINDS = {"sequence_type": "a sequence", "map_type": "a map", "optional_type": "an optional",
          "sparse_tensor_type": "a sparse tensor"}  # fmt: skip


def read_signature(path: Path, model: Any) -> Signature:
    """Raises ModelRefused naming an input or output that a request cannot carry.

    An output without a declared shape gets an empty one, filled in once it has been seen (``with_observed_ranks``).
    """
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [_spec(path, "input", value) for value in model.graph.input if value.name not in stored]
    outputs = [_spec(path, "output", value) for value in model.graph.output]
    if not outputs:
        raise ModelRefused(path, "the graph has no outputs: it is empty, or no ONNX model at all")
    if not inputs:
        raise ModelRefused(path, "the graph has no inputs: there is nothing to send to it")
    return Signature(inputs=inputs, outputs=outputs)


def with_observed_ranks(signature: Signature, shapes: dict[str, list[Sequence[int]]]) -> tuple[Signature, list[str]]:
    """The signature with output dimensions that were wrong, or not declared, made symbolic; and a note for each.

    ``shapes``: what the source really answered, by output.
    """
    notes: list[str] = []
    outputs = [_observed(spec, shapes.get(spec.name, []), notes) for spec in signature.outputs]
    return Signature(inputs=signature.inputs, outputs=outputs), notes


def _observed(spec: TensorSpec, seen: list[Sequence[int]], notes: list[str]) -> TensorSpec:
    if not seen or all(spec.accepts(shape) for shape in seen):
        return spec
    rank = len(seen[0])
    declared = spec.shape if len(spec.shape) == rank else [f"{spec.name}_{axis}" for axis in range(rank)]
    shape: list[int | str] = [
        dim if isinstance(dim, str) or all(len(s) == rank and s[axis] == dim for s in seen) else f"{spec.name}_{axis}"
        for axis, dim in enumerate(declared)
    ]
    if spec.shape:
        notes.append(f"output {spec.name!r} is declared {spec.shape}, but answered {list(seen[0])}: taken as {shape}")
    return TensorSpec(name=spec.name, dtype=spec.dtype, shape=shape)


def _spec(path: Path, what: str, value: Any) -> TensorSpec:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        said = _KINDS.get(kind or "", "of no declared type")
        hint = "; for scikit-learn export with zipmap=False" if kind == "sequence_type" else ""
        raise ModelRefused(path, f"{what} {value.name!r} is {said}; only tensors can be sent in a request{hint}")
    number = value.type.tensor_type.elem_type
    if number not in DTYPES:
        raise ModelRefused(path, f"{what} {value.name!r} is {_type_name(number)}, which a request cannot carry: "
                           "add a Cast to float or an integer type at the model's edge")  # fmt: skip
    if not value.type.tensor_type.HasField("shape"):
        if what == "input":
            raise ModelRefused(path, f"input {value.name!r} declares no shape; export it with its shape")
        return TensorSpec(name=value.name, dtype=DTYPES[number], shape=[])
    dims = value.type.tensor_type.shape.dim
    shape: list[int | str] = [_dimension(dim, value.name, axis) for axis, dim in enumerate(dims)]
    return TensorSpec(name=value.name, dtype=DTYPES[number], shape=shape)


def _dimension(dim: Any, tensor: str, axis: int) -> int | str:
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    named = str(dim.dim_param)
    return named if named.strip() not in UNNAMED else f"{tensor}_{axis}"


def _type_name(number: int) -> str:
    from onnx import TensorProto

    try:
        return str(TensorProto.DataType.Name(number))
    except ValueError:
        return f"of unknown type {number}"
