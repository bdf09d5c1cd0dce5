"""From the signature's tensors to a variant file's and back: axes, dtype, affine quantisation.

A converter is made once per tensor when a model is opened; where nothing differs it hands the array through untouched.
Quantisation is ``real = scale * (integer - zero_point)``, rounding half to even as the runtimes do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_contracts.errors import MalformedTensor
from edge_contracts.tensor_signature import NUMPY_NAME, TensorBinding

Array = NDArray[Any]
Convert = Callable[[Array], Array]
_INTEGERS = {"INT8", "INT16", "INT32", "UINT8", "UINT16", "UINT32"}


def input_converter(binding: TensorBinding, wire_dtype: str) -> Convert:
    """Signature tensor (``wire_dtype``, source layout) -> file tensor. May raise ValueError for a wrong rank."""
    steps: list[Convert] = []
    if binding.permutation is not None:
        axes = tuple(binding.permutation)
        steps.append(lambda array: np.transpose(array, axes))
    if _is_quantized(binding, wire_dtype):
        steps.append(_quantizer(binding))
    elif wire_dtype != binding.dtype:
        steps.append(_caster(wire_dtype, binding.dtype, binding.name))
    return _chain(steps, np.ascontiguousarray if steps else None)


def output_converter(binding: TensorBinding, wire_dtype: str) -> Convert:
    """File tensor -> signature tensor (``wire_dtype``, source layout). May raise ValueError for a wrong rank."""
    steps: list[Convert] = []
    if _is_quantized(binding, wire_dtype):
        steps.append(_dequantizer(binding, wire_dtype))
    elif wire_dtype != binding.dtype:
        steps.append(_caster(binding.dtype, wire_dtype, binding.name))
    if binding.permutation is not None:
        axes = tuple(inverse_permutation(binding.permutation))
        steps.append(lambda array: np.transpose(array, axes))
    return _chain(steps, np.ascontiguousarray if steps else None)


def inverse_permutation(permutation: Sequence[int]) -> list[int]:
    """``transpose(transpose(x, p), inverse_permutation(p)) == x``."""
    inverse = [0] * len(permutation)
    for position, axis in enumerate(permutation):
        inverse[axis] = position
    return inverse


def _is_quantized(binding: TensorBinding, wire_dtype: str) -> bool:
    return binding.scale is not None and binding.dtype in _INTEGERS and wire_dtype != binding.dtype


def _quantizer(binding: TensorBinding) -> Convert:
    dtype = np.dtype(NUMPY_NAME[binding.dtype])
    limits = np.iinfo(dtype)
    scale, zero = np.float32(binding.scale or 1.0), np.float32(binding.zero_point or 0)

    def quantize(array: Array) -> Array:
        scaled: Array = np.rint(np.asarray(array, dtype=np.float32) / scale) + zero
        clipped: Array = np.clip(np.nan_to_num(scaled), limits.min, limits.max)
        return clipped.astype(dtype)

    return quantize


def _dequantizer(binding: TensorBinding, wire_dtype: str) -> Convert:
    scale, zero = np.float32(binding.scale or 1.0), np.float32(binding.zero_point or 0)
    target = _dtype(wire_dtype, binding.name)

    def dequantize(array: Array) -> Array:
        real: Array = (array.astype(np.float32) - zero) * scale
        return real.astype(target, copy=False)

    return dequantize


def _caster(source: str, target: str, name: str) -> Convert:
    if source == "BF16":
        widened = _dtype(target, name)
        return lambda array: _from_bfloat16(array).astype(widened, copy=False)
    if target == "BF16":
        return _to_bfloat16
    dtype = _dtype(target, name)
    return lambda array: array.astype(dtype)


def _from_bfloat16(array: Array) -> Array:
    bits: Array = array.astype(np.uint32) << 16
    return bits.view(np.float32)


def _to_bfloat16(array: Array) -> Array:
    """Round to nearest even, as bit patterns in uint16 (edge_contracts.parity.to_array)."""
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    rounded: Array = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return rounded.astype(np.uint16)


def _dtype(wire_dtype: str, name: str) -> np.dtype[Any]:
    if wire_dtype not in NUMPY_NAME:
        raise MalformedTensor(name, f"dtype {wire_dtype!r} cannot be converted")
    return np.dtype(NUMPY_NAME[wire_dtype])


def _chain(steps: list[Convert], last: Convert | None) -> Convert:
    if not steps:
        return _untouched
    if last is not None:
        steps = [*steps, last]

    def convert(array: Array) -> Array:
        for step in steps:
            array = step(array)
        return array

    return convert


def _untouched(array: Array) -> Array:
    return array
