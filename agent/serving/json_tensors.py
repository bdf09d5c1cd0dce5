"""Tensors as JSON numbers, strings and booleans, without NumPy: the ``data`` of the Open Inference Protocol.

``data`` is either flat in row-major order or nested exactly as the shape says. FP16 and BF16 have no JSON form.
Time and memory are linear in the length of the text: msgspec refuses NaN literals, numbers out of range, invalid UTF-8
and nesting beyond the interpreter's recursion limit.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from edge_contracts.errors import MalformedTensor
from edge_contracts.inference_wire import join_bytes_elements, split_bytes_elements
from edge_contracts.tensor_signature import BYTES, element_count

MAX_RANK = 32
_TYPECODE = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q", "INT8": "b", "INT16": "h", "INT32": "i",
    "INT64": "q", "FP32": "f", "FP64": "d",
}  # fmt: skip
_ELEMENT: dict[str, type] = {"BOOL": bool, BYTES: str, "FP32": float, "FP64": float}
_PLUS_INFINITY, _MINUS_INFINITY = b"\x00\x00\x80\x7f", b"\x00\x00\x80\xff"
_BLANKS = b" \t\r\n"


def has_json_form(dtype: str) -> bool:
    """Whether tensors of ``dtype`` can stand in JSON at all."""
    return dtype == BYTES or dtype in _TYPECODE


def json_element(dtype: str) -> type:
    """The Python type of an element of ``dtype`` in JSON."""
    return _ELEMENT.get(dtype, int)


def text_bytes(name: str, dtype: str, shape: Sequence[int], text: bytes | memoryview) -> bytes:
    """The raw bytes of a tensor whose JSON ``data``, flat or nested, is ``text``. Raises MalformedTensor."""
    if not has_json_form(dtype):
        raise MalformedTensor(name, f"{dtype} has no JSON form: send it in binary (parameters.binary_data_size)")
    return flat_bytes(name, dtype, shape, _flat_values(name, json_element(dtype), shape, text))


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


def json_values(name: str, dtype: str, shape: Sequence[int], data: bytes | memoryview) -> list[Any]:
    """The flat values of a tensor for JSON.

    Raises MalformedTensor where JSON cannot carry them: FP16 and BF16, BYTES that are not UTF-8, NaN and infinity.
    """
    if dtype == BYTES:
        try:
            return [element.decode() for element in split_bytes_elements(name, data, element_count(name, shape))]
        except UnicodeDecodeError as error:
            raise MalformedTensor(name, "holds bytes that are not UTF-8, which JSON cannot carry") from error
    if not has_json_form(dtype):
        raise MalformedTensor(name, f"{dtype} has no JSON form")
    values: list[Any] = memoryview(_native(dtype, data)).cast(_TYPECODE[dtype]).tolist()  # type: ignore[call-overload]
    if dtype in ("FP32", "FP64") and not math.isfinite(sum(values)) and not all(map(math.isfinite, values)):
        raise MalformedTensor(name, "holds NaN or infinity, which JSON cannot carry")
    return values


def _flat_values(name: str, element: type, shape: Sequence[int], text: bytes | memoryview) -> list[Any]:
    depth = len(shape) if _is_nested(text) else 1
    if depth > MAX_RANK:
        raise MalformedTensor(name, f"rank {depth}; at most {MAX_RANK}")
    kind: Any = element
    for _ in range(depth):
        kind = list[kind]
    try:
        level: list[Any] = msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise MalformedTensor(name, _plain(str(error), depth, shape)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise MalformedTensor(name, f"data: {error}") from error
    for position in range(depth - 1):
        level = _one_level_down(name, level, shape, position)
    if depth > 1 and level and len(level) != element_count(name, shape):
        raise MalformedTensor(name, f"nested data does not have the shape {list(shape)}")
    return level


def _one_level_down(name: str, level: list[list[Any]], shape: Sequence[int], position: int) -> list[Any]:
    """Concatenate the lists of ``level``, whose lengths must all be ``shape[position + 1]``."""
    expected = math.prod(shape[: position + 1])
    lengths = set(map(len, level))
    if len(level) != expected or (lengths and lengths != {shape[position + 1]}):
        raise MalformedTensor(name, f"nested data does not have the shape {list(shape)}")
    return list(chain.from_iterable(level))


def _is_nested(text: bytes | memoryview) -> bool:
    head = bytes(text[:256]).lstrip(_BLANKS)
    if not head.startswith(b"["):
        return False
    after = head[1:].lstrip(_BLANKS)
    if not after and len(text) > 256:
        after = bytes(text).lstrip(_BLANKS)[1:].lstrip(_BLANKS)
    return after.startswith(b"[")


def _plain(message: str, depth: int, shape: Sequence[int]) -> str:
    if depth > 1 and "`array`" in message:
        return f"data: {message}; nested data must have the shape {list(shape)}"
    return f"data: {message}"


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
    return any(math.isinf(value) for value in memoryview(_native("FP32", data)).cast("f"))


def _native(dtype: str, data: bytes | memoryview) -> bytes | memoryview:
    if sys.byteorder == "little" or dtype == "BOOL":
        return data
    swapped = array(_TYPECODE[dtype])
    swapped.frombytes(data)
    swapped.byteswap()
    return swapped.tobytes()
