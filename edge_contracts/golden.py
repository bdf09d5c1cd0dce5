"""Goldens: the samples that prove a variant on a device, one binary inference request and response each.

All goldens of a bundle are one blob, so that a device fetches them in one transfer and versions that share them store
them once:

    b"MINDEDGE-GOLDENS-1\\n"
    repeated: u32 request header length, u32 request length, request body,
              u32 response header length, u32 response length, response body        (little-endian)

Request bodies are exactly what ``curl --data-binary`` may send to ``/v2/models/NAME/infer``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edge_contracts.errors import MalformedBundle, MalformedTensor
from edge_contracts.inference_wire import Tensor, decode_binary_body, encode_request, encode_response

MAGIC = b"MINDEDGE-GOLDENS-1\n"
_PAIR = struct.Struct("<II")


@dataclass(frozen=True)
class Golden:
    """One sample: what goes in, and what the source model answered, in the signature's names, layout and dtypes."""

    inputs: list[Tensor]
    outputs: list[Tensor]


def encode_goldens(goldens: Iterable[Golden], *, model: str) -> bytes:
    """The goldens blob. The same goldens and model name give the same bytes, whatever the version: it is shared."""
    parts = [MAGIC]
    for golden in goldens:
        for body, header_length in (encode_request(golden.inputs), encode_response(model, golden.outputs)):
            parts += [_PAIR.pack(header_length, len(body)), body]
    return b"".join(parts)


def decode_goldens(blob: bytes | memoryview) -> list[Golden]:
    """Parse a goldens blob; tensor data are views of it. Raises MalformedBundle."""
    view = memoryview(blob)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise MalformedBundle("goldens", "does not start with the goldens mark")
    bodies = _bodies(view[len(MAGIC) :])
    if len(bodies) % 2:
        raise MalformedBundle("goldens", "a request without its response")
    return [Golden(inputs, outputs) for inputs, outputs in zip(bodies[::2], bodies[1::2], strict=True)]


def _bodies(view: memoryview) -> Sequence[list[Tensor]]:
    bodies: list[list[Tensor]] = []
    at = 0
    while at < len(view):
        if len(view) - at < _PAIR.size:
            raise MalformedBundle("goldens", f"cut short in sample {len(bodies) // 2}")
        header_length, length = _PAIR.unpack_from(view, at)
        at += _PAIR.size
        if length > len(view) - at:
            raise MalformedBundle("goldens", f"cut short in sample {len(bodies) // 2}")
        try:
            bodies.append(decode_binary_body(view[at : at + length], header_length))
        except MalformedTensor as error:
            raise MalformedBundle("goldens", f"sample {len(bodies) // 2}: {error}") from error
        at += length
    return bodies
