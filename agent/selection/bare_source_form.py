"""What the child that reads a bare model file tells about it."""

from __future__ import annotations

import msgspec

from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec


class BareSource(msgspec.Struct, frozen=True, kw_only=True):
    """What the file takes and gives, and what it computes in."""

    signature: Signature
    precision: str


def bound(spec: TensorSpec) -> TensorBinding:
    """The binding of a tensor that the file has just as the signature says."""
    return TensorBinding(name=spec.name, source_name=spec.name, dtype=spec.dtype, shape=list(spec.shape))
