from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from edge_contracts.errors import MalformedTensor
from edge_contracts.tensor_conversion import input_converter, inverse_permutation, output_converter
from edge_contracts.tensor_signature import TensorBinding

permutations = st.integers(1, 5).flatmap(lambda rank: st.permutations(list(range(rank))))


def binding(dtype: str = "FP32", **more: Any) -> TensorBinding:
    return TensorBinding(name="x", source_name="x", dtype=dtype, shape=["batch", 2], **more)


@given(permutations, st.data())
def test_an_output_undoes_the_permutation_of_an_input(permutation: list[int], data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=len(permutation), max_size=len(permutation))))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    bound = binding(permutation=permutation)
    there = input_converter(bound, "FP32")(array)
    assert there.flags.c_contiguous
    np.testing.assert_array_equal(there, np.transpose(array, permutation))
    np.testing.assert_array_equal(output_converter(bound, "FP32")(there), array)
    assert [permutation[i] for i in inverse_permutation(permutation)] == list(range(len(permutation)))


def test_what_does_not_differ_is_handed_through_untouched() -> None:
    array = np.ones((1, 2), np.float32)
    assert input_converter(binding(), "FP32")(array) is array
    assert output_converter(binding(), "FP32")(array) is array


@given(arrays.arrays(np.float32, (3, 2), elements=st.floats(-8, 8, width=32)), st.integers(-128, 127))
def test_quantised_and_back_is_within_half_a_step_unless_clipped(array: np.ndarray, zero: int) -> None:
    bound = binding("INT8", scale=0.25, zero_point=zero)
    there = input_converter(bound, "FP32")(array)
    assert there.dtype == np.int8
    back = output_converter(bound, "FP32")(there)
    low, high = (-128 - zero) * 0.25, (127 - zero) * 0.25
    np.testing.assert_allclose(back, np.clip(array, low, high), atol=0.1251)


def test_a_number_that_is_none_does_not_become_an_arbitrary_integer() -> None:
    there = input_converter(binding("UINT8", scale=1.0, zero_point=7), "FP32")(np.array([[np.nan, np.inf]], np.float32))
    assert there.tolist() == [[0, 255]]


@pytest.mark.parametrize(("wire", "file"), [("INT64", "INT32"), ("FP32", "FP16"), ("FP64", "FP32"), ("BOOL", "UINT8")])
def test_dtypes_are_converted_there_and_back(wire: str, file: str) -> None:
    names = {"INT64": np.int64, "INT32": np.int32, "FP32": np.float32, "FP16": np.float16, "FP64": np.float64,
             "BOOL": np.bool_, "UINT8": np.uint8}  # fmt: skip
    array = np.array([[0, 1]], dtype=names[wire])
    there = input_converter(binding(file), wire)(array)
    assert there.dtype == names[file]
    back = output_converter(binding(file), wire)(there)
    assert back.dtype == names[wire]
    np.testing.assert_array_equal(back, array)


@given(arrays.arrays(np.float32, 8, elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_bfloat16_keeps_eight_bits_of_the_mantissa(array: np.ndarray) -> None:
    bits = output_converter(binding("FP32"), "BF16")(array)
    assert bits.dtype == np.uint16
    np.testing.assert_allclose(output_converter(binding("BF16"), "FP32")(bits), array, rtol=2**-8, atol=1e-37)


def test_an_unknown_dtype_is_named() -> None:
    with pytest.raises(MalformedTensor, match="COMPLEX"):
        input_converter(binding("COMPLEX"), "FP32")


def test_a_tensor_of_another_rank_than_the_permutation_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="axes"):
        input_converter(binding(permutation=[0, 2, 1]), "FP32")(np.ones((1, 2), np.float32))
