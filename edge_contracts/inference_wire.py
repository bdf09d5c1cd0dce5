"""Bodies of the Open Inference Protocol's binary tensor extension, without NumPy.

A body is a JSON header of ``header_length`` bytes followed by the raw tensors, little-endian, row-major, in the
order in which the header lists them with ``binary_data_size``. A BYTES element is a 4-byte little-endian length and the
bytes.

Source: https://github.com/kserve/open-inference-protocol and Triton's "binary tensor data extension".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from edge_contracts.errors import MalformedTensor
from edge_contracts.tensor_signature import BYTES, byte_count, element_count

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Tensor:
    """A dense tensor: ``data`` holds its raw little-endian, row-major bytes (for BYTES: length-prefixed elements).

    ``data`` may be a view of a larger buffer that the caller keeps alive. Equality compares the bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


def check_tensor(tensor: Tensor) -> Tensor:
    """Return ``tensor`` if its bytes agree with dtype and shape. Raises MalformedTensor; never reads past the end."""
    if tensor.dtype == BYTES:
        split_bytes_elements(tensor.name, tensor.data, element_count(tensor.name, tensor.shape))
        return tensor
    expected = byte_count(tensor.name, tensor.dtype, tensor.shape)
    if len(tensor.data) != expected:
        raise MalformedTensor(tensor.name, f"expected {expected} bytes for {tensor.dtype} {list(tensor.shape)}, "
                              f"got {len(tensor.data)}")  # fmt: skip
    return tensor


def split_bytes_elements(name: str, data: bytes | memoryview, count: int) -> list[bytes]:
    """The elements of a BYTES tensor. Raises MalformedTensor on a bad prefix, too few, or trailing bytes."""
    view = memoryview(data)
    elements: list[bytes] = []
    at = 0
    while at < len(view):
        if len(elements) == count:
            raise MalformedTensor(name, f"{len(view) - at} bytes after the {count} elements of the shape")
        if len(view) - at < 4:
            raise MalformedTensor(name, f"cut short in the length prefix of element {len(elements)}")
        (length,) = _LENGTH.unpack_from(view, at)
        at += 4
        if length > len(view) - at:
            raise MalformedTensor(name, f"element {len(elements)} claims {length} bytes, {len(view) - at} are left")
        elements.append(bytes(view[at : at + length]))
        at += length
    if len(elements) != count:
        raise MalformedTensor(name, f"{len(elements)} elements, the shape says {count}")
    return elements


def join_bytes_elements(elements: Sequence[bytes]) -> bytes:
    """Length-prefixed form of BYTES elements; the inverse of split_bytes_elements."""
    return b"".join(_LENGTH.pack(len(element)) + element for element in elements)


def encode_request(tensors: Sequence[Tensor], *, request_id: str | None = None) -> tuple[bytes, int]:
    """A binary inference request asking for binary outputs: (body, header_length)."""
    header: dict[str, object] = {"inputs": [_header_entry(tensor) for tensor in tensors]}
    header["parameters"] = {"binary_data_output": True}
    if request_id is not None:
        header["id"] = request_id
    return _body(header, tensors)


def encode_response(model: str, tensors: Sequence[Tensor], *, version: str | None = None) -> tuple[bytes, int]:
    """A binary inference response: (body, header_length)."""
    header: dict[str, object] = {"model_name": model}
    if version is not None:
        header["model_version"] = version
    header["outputs"] = [_header_entry(tensor) for tensor in tensors]
    return _body(header, tensors)


class _Parameters(msgspec.Struct):
    binary_data_size: int | None = None


class _Entry(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]
    parameters: _Parameters


class _Header(msgspec.Struct):
    inputs: list[_Entry] | None = None
    outputs: list[_Entry] | None = None


def decode_binary_body(body: bytes | memoryview, header_length: int) -> list[Tensor]:
    """The tensors of a request or response in which every tensor is binary. Raises MalformedTensor.

    For trusted shapes such as goldens; the server's protocol parser handles mixed JSON and binary requests.
    """
    view = memoryview(body)
    if not 0 < header_length <= len(view):
        raise MalformedTensor("header", f"header length {header_length} outside the body of {len(view)} bytes")
    try:
        header = msgspec.json.decode(view[:header_length], type=_Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedTensor("header", str(error)) from error
    tensors: list[Tensor] = []
    at = header_length
    for entry in (header.inputs or []) + (header.outputs or []):
        size = entry.parameters.binary_data_size
        if size is None or size < 0 or size > len(view) - at:
            raise MalformedTensor(entry.name, f"binary_data_size {size} does not fit the {len(view) - at} bytes left")
        tensors.append(check_tensor(Tensor(entry.name, entry.datatype, tuple(entry.shape), view[at : at + size])))
        at += size
    if at != len(view):
        raise MalformedTensor("body", f"{len(view) - at} bytes after the last tensor")
    return tensors


def _header_entry(tensor: Tensor) -> dict[str, object]:
    return {
        "name": tensor.name,
        "datatype": tensor.dtype,
        "shape": list(tensor.shape),
        "parameters": {"binary_data_size": len(tensor.data)},
    }


def _body(header: dict[str, object], tensors: Sequence[Tensor]) -> tuple[bytes, int]:
    head = msgspec.json.encode(header)
    return b"".join([head, *(bytes(tensor.data) for tensor in tensors)]), len(head)
