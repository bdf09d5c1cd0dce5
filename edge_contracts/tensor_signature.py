"""What a model takes and gives, and how one variant's own tensors relate to it.

Dtypes are the Open Inference Protocol's names (FP32, INT64, BYTES, ...).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from edge_contracts.errors import MalformedTensor

ELEMENT_BYTES = {
    "BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8,
    "FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8,
}  # fmt: skip
BYTES = "BYTES"
NUMPY_NAME = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
    "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
    BYTES: "object",
}  # fmt: skip
DTYPE_OF_NUMPY = {numpy_name: dtype for dtype, numpy_name in NUMPY_NAME.items()}


class TensorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One input or output of the model, in the source model's own layout.

    ``shape``: each dimension is a size (int >= 0) or the name of a symbolic dimension (str), for example
    ``["batch", 3, 224, 224]``. Equal names mean equal sizes within one request.
    """

    name: str
    dtype: str
    shape: list[int | str]

    def wire_shape(self) -> list[int]:
        """The shape as the Open Inference Protocol writes it: -1 for a symbolic dimension."""
        return [-1 if isinstance(dim, str) else dim for dim in self.shape]

    def accepts(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of ``shape`` fits, names of symbolic dimensions aside."""
        return len(shape) == len(self.shape) and all(
            isinstance(dim, str) or dim == size for dim, size in zip(self.shape, shape, strict=True)
        )


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs and outputs in the order of the source model."""

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]

    def input(self, name: str) -> TensorSpec | None:
        """The input of that name, or None."""
        return next((spec for spec in self.inputs if spec.name == name), None)

    def output(self, name: str) -> TensorSpec | None:
        """The output of that name, or None."""
        return next((spec for spec in self.outputs if spec.name == name), None)


class TensorBinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a variant's file names and stores one tensor of the signature.

    name: the signature's tensor.
    source_name: the tensor's name inside the variant's file.
    permutation: axes so that ``file_tensor = numpy.transpose(signature_tensor, permutation)``; None when equal. For an
        output the engine applies the inverse.
    dtype: the file's dtype; where it differs from the signature's, the engine converts.
    scale, zero_point: affine quantisation of an integer tensor: ``real = scale * (integer - zero_point)``.
    shape: the file's shape in the *signature's* axis order; an int where the signature is symbolic is a frozen
        dimension (the engine splits the leading axis when that one is frozen to 1).
    """

    name: str
    source_name: str
    dtype: str
    shape: list[int | str]
    permutation: list[int] | None = None
    scale: float | None = None
    zero_point: int | None = None


def byte_count(name: str, dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a dense tensor. Raises MalformedTensor for BYTES (no fixed size), unknown dtypes, negative sizes."""
    if dtype not in ELEMENT_BYTES:
        raise MalformedTensor(name, f"dtype {dtype!r} has no fixed element size")
    return ELEMENT_BYTES[dtype] * element_count(name, shape)


def element_count(name: str, shape: Sequence[int]) -> int:
    """Number of elements; at most 2^63 - 1. Raises MalformedTensor."""
    count = 1
    for size in shape:
        if size < 0:
            raise MalformedTensor(name, f"negative dimension {size}")
        count *= size
    if count > 2**63 - 1:
        raise MalformedTensor(name, "more than 2^63 - 1 elements")
    return count
