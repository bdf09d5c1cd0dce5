"""Tensors as JSON numbers, strings and booleans, without NumPy: the ``data`` of the Open Inference Protocol.

``data`` is either flat in row-major order or nested exactly as the shape says. FP16 and BF16 have no JSON form.
Time and memory are linear in the length of the text: msgspec refuses NaN literals, numbers out of range, invalid UTF-8
and nesting beyond the interpreter's recursion limit; many numbers are decoded and encoded piece by piece, since a
Python number costs up to 32 bytes while it lives.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from edge_contracts.errors import MalformedTensor
from edge_contracts.inference_wire import join_bytes_elements, split_bytes_elements
from edge_contracts.tensor_signature import BYTES, element_count

MAX_RANK = 32
LARGE_TEXT_BYTES = 256 * 1024
"""Texts beyond this are decoded in pieces."""

_PIECE_BYTES = 32 * 1024
_PIECE_NUMBERS = 8 * 1024
_TYPECODE = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q", "INT8": "b", "INT16": "h", "INT32": "i",
    "INT64": "q", "FP32": "f", "FP64": "d",
}  # fmt: skip
_ELEMENT: dict[str, type] = {"BOOL": bool, BYTES: str, "FP32": float, "FP64": float}
_PLUS_INFINITY, _MINUS_INFINITY = b"\x00\x00\x80\x7f", b"\x00\x00\x80\xff"
_BLANKS = b" \t\r\n"
_ALL_BUT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b"[],")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


def has_json_form(dtype: str) -> bool:
    """Whether tensors of ``dtype`` can stand in JSON at all."""
    return dtype == BYTES or dtype in _TYPECODE


def json_element(dtype: str) -> type:
    """The Python type of an element of ``dtype`` in JSON."""
    return _ELEMENT.get(dtype, int)


def text_bytes(name: str, dtype: str, shape: Sequence[int], text: bytes | memoryview) -> bytes:
    """The raw bytes of a tensor whose JSON ``data``, flat or nested, is ``text`` (a valid JSON value).

    Raises MalformedTensor naming the tensor.
    """
    if not has_json_form(dtype):
        raise MalformedTensor(name, f"{dtype} has no JSON form: send it in binary (parameters.binary_data_size)")
    flat = bytes(text).strip(_BLANKS)
    nested = flat[1:].lstrip(_BLANKS).startswith(b"[") if flat.startswith(b"[") else False
    if dtype == BYTES:
        depth = len(shape) if nested else 1
        return flat_bytes(name, dtype, shape, _flat_strings(name, shape, flat, depth))
    if nested:
        flat = _flattened(name, shape, flat)
    if len(flat) > LARGE_TEXT_BYTES:
        return _bytes_in_pieces(name, dtype, shape, flat)
    return flat_bytes(name, dtype, shape, _decoded(name, flat, json_element(dtype)))


def flat_bytes(name: str, dtype: str, shape: Sequence[int], values: list[Any]) -> bytes:
    """The raw bytes of a tensor whose flat values, all of type ``json_element(dtype)``, are these.

    Raises MalformedTensor naming the tensor: their number does not fit the shape, or one is out of range.
    """
    count = element_count(name, shape)
    if len(values) != count:
        raise MalformedTensor(name, f"expected {count} values for shape {list(shape)}, got {len(values)}")
    if dtype == BYTES:
        return join_bytes_elements([value.encode() for value in values])
    return _packed(name, dtype, values)


def json_values(name: str, dtype: str, shape: Sequence[int], data: bytes | memoryview) -> list[Any] | msgspec.Raw:
    """The flat values of a tensor as something that msgspec encodes.

    Raises MalformedTensor where JSON cannot carry them: FP16 and BF16, BYTES that are not UTF-8, NaN and infinity.
    """
    if dtype == BYTES:
        try:
            return [element.decode() for element in split_bytes_elements(name, data, element_count(name, shape))]
        except UnicodeDecodeError as error:
            raise MalformedTensor(name, "holds bytes that are not UTF-8, which JSON cannot carry") from error
    if not has_json_form(dtype):
        raise MalformedTensor(name, f"{dtype} has no JSON form")
    native = memoryview(_native(dtype, data)).cast("B").cast(_TYPECODE[dtype])  # type: ignore[call-overload]
    if len(native) <= _PIECE_NUMBERS:
        return _finite(name, dtype, native.tolist())
    pieces = (native[at : at + _PIECE_NUMBERS].tolist() for at in range(0, len(native), _PIECE_NUMBERS))
    texts = [msgspec.json.encode(_finite(name, dtype, piece))[1:-1] for piece in pieces]
    return msgspec.Raw(b"[%b]" % b",".join(texts))


def _decoded(name: str, text: bytes, element: Any) -> list[Any]:
    try:
        values: list[Any] = msgspec.json.decode(text, type=list[element])
    except _UNREADABLE as error:
        raise MalformedTensor(name, f"data: {error}") from error
    return values


def _flattened(name: str, shape: Sequence[int], text: bytes) -> bytes:
    """Nested numbers as flat ones. Their brackets and commas must be exactly those of ``shape``."""
    fits = len(shape) <= MAX_RANK and all(size <= len(text) for size in _prefix_products(shape))
    if not fits or text.translate(None, _ALL_BUT_STRUCTURE) != _structure(shape):
        raise MalformedTensor(name, f"nested data does not have the shape {list(shape[:MAX_RANK])}")
    return b"[]" if 0 in shape else b"[%b]" % text.translate(None, b"[]")


def _prefix_products(shape: Sequence[int]) -> Iterator[int]:
    product = 1
    for size in shape:
        product *= size
        yield product


def _structure(shape: Sequence[int]) -> bytes:
    """Brackets and commas of nested JSON of that shape."""
    structure = b"[%b]" % (b"," * (shape[-1] - 1)) if shape else b""
    for size in reversed(shape[:-1]):
        structure = b"[%b]" % b",".join([structure] * size)
    return structure


def _bytes_in_pieces(name: str, dtype: str, shape: Sequence[int], text: bytes) -> bytes:
    """Flat numbers hold no comma, so the text may be cut at any of them."""
    element, begin, end = json_element(dtype), 1, len(text) - 1
    if not text.startswith(b"["):
        raise MalformedTensor(name, "data: Expected `array`")
    count, pieces = 0, []
    while begin < end:
        comma = text.find(b",", begin + _PIECE_BYTES, end)
        cut = end if comma < 0 else comma
        values = _decoded(name, b"[%b]" % text[begin:cut], element)
        pieces.append(_packed(name, dtype, values))
        count += len(values)
        begin = cut + 1
    expected = element_count(name, shape)
    if count != expected:
        raise MalformedTensor(name, f"expected {expected} values for shape {list(shape)}, got {count}")
    return b"".join(pieces)


def _flat_strings(name: str, shape: Sequence[int], text: bytes, depth: int) -> list[str]:
    if depth > MAX_RANK:
        raise MalformedTensor(name, f"rank {depth}; at most {MAX_RANK}")
    kind: Any = str
    for _ in range(depth - 1):
        kind = list[kind]
    level = _decoded(name, text, kind)
    for position in range(depth - 1):
        lengths = set(map(len, level))
        if len(level) != math.prod(shape[: position + 1]) or (lengths and lengths != {shape[position + 1]}):
            raise MalformedTensor(name, f"nested data does not have the shape {list(shape)}")
        level = list(chain.from_iterable(level))
    return level


def _packed(name: str, dtype: str, values: list[Any]) -> bytes:
    if dtype == "BOOL":
        return bytes(values)
    try:
        packed = array(_TYPECODE[dtype], values)
    except OverflowError as error:
        raise MalformedTensor(name, f"data: a number is out of the range of {dtype}") from error
    if sys.byteorder == "big":
        packed.byteswap()
    data = packed.tobytes()
    if dtype == "FP32" and (_PLUS_INFINITY in data or _MINUS_INFINITY in data) and _has_infinity(data):
        raise MalformedTensor(name, "data: a number is out of the range of FP32")
    return data


def _has_infinity(data: bytes) -> bool:
    """Whether an infinity stands at a multiple of four; the pattern may also lie across two numbers."""
    return any(map(math.isinf, memoryview(_native("FP32", data)).cast("f")))


def _finite(name: str, dtype: str, values: list[Any]) -> list[Any]:
    if dtype in ("FP32", "FP64") and not math.isfinite(sum(values)) and not all(map(math.isfinite, values)):
        raise MalformedTensor(name, "holds NaN or infinity, which JSON cannot carry")
    return values


def _native(dtype: str, data: bytes | memoryview) -> bytes | memoryview:
    if sys.byteorder == "little" or dtype == "BOOL":
        return data
    swapped = array(_TYPECODE[dtype])
    swapped.frombytes(data)
    swapped.byteswap()
    return swapped.tobytes()
