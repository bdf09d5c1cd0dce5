"""Signatures that several protocol tests share."""

from __future__ import annotations

from edge_contracts.tensor_signature import Signature, TensorSpec


def signature_of(dtype: str = "FP32", shape: list[int | str] | None = None, *, name: str = "x") -> Signature:
    """One input and one output of the same dtype and shape."""
    dims: list[int | str] = ["batch", 8] if shape is None else shape
    return Signature(
        inputs=[TensorSpec(name=name, dtype=dtype, shape=dims)], outputs=[TensorSpec(name="y", dtype=dtype, shape=dims)]
    )


TWO_INPUTS = Signature(
    inputs=[
        TensorSpec(name="image", dtype="UINT8", shape=["batch", 4]),
        TensorSpec(name="text", dtype="BYTES", shape=["batch"]),
    ],
    outputs=[
        TensorSpec(name="score", dtype="FP32", shape=["batch"]),
        TensorSpec(name="half", dtype="FP16", shape=["batch"]),
        TensorSpec(name="label", dtype="BYTES", shape=["batch"]),
    ],
)
