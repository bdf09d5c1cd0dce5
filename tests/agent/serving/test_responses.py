from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import RequestRefused
from agent.serving.protocol import InferenceRequest, WantedOutput
from agent.serving.responses import format_answer, format_error
from edge_contracts.inference_wire import Tensor, decode_binary_body, join_bytes_elements


def asked(*names: str, binary: bool = False, takes_binary: bool = False) -> InferenceRequest:
    return InferenceRequest("id-1", [], [], [WantedOutput(name, binary) for name in names], takes_binary or binary)


def test_a_request_that_names_no_form_gets_json() -> None:
    output = Tensor("y", "INT64", (2, 2), struct.pack("<4q", 1, -2, 3, 2**62))
    answer = format_answer("m", "1.0.0", asked("y"), [output])
    assert answer.header_length is None
    assert json.loads(answer.json_part) == {
        "model_name": "m", "model_version": "1.0.0", "id": "id-1",
        "outputs": [{"name": "y", "datatype": "INT64", "shape": [2, 2], "data": [1, -2, 3, 2**62]}],
    }  # fmt: skip


def test_a_binary_answer_is_what_the_contract_decodes() -> None:
    strings = join_bytes_elements([b"\xff"])
    outputs = [Tensor("y", "FP32", (2,), struct.pack("<2f", 1, 2)), Tensor("s", "BYTES", (1,), strings)]
    answer = format_answer("m", "1.0.0", asked("y", "s", binary=True), outputs)
    assert answer.header_length is not None
    body = answer.json_part + b"".join(bytes(part) for part in answer.binary_parts)
    assert decode_binary_body(body, answer.header_length) == outputs


UNSPEAKABLE = [
    Tensor("y", "FP16", (1,), b"\x00\x3c"),
    Tensor("y", "BF16", (1,), b"\x80\x3f"),
    Tensor("y", "BYTES", (1,), join_bytes_elements([b"\xff\xfe"])),
    Tensor("y", "FP32", (2,), struct.pack("<2f", 1, math.nan)),
    Tensor("y", "FP64", (2,), struct.pack("<2d", -math.inf, math.inf)),
]


@pytest.mark.parametrize("output", UNSPEAKABLE, ids=lambda tensor: tensor.dtype)
def test_an_output_that_json_cannot_carry_comes_in_binary_if_the_request_was_binary(output: Tensor) -> None:
    answer = format_answer("m", "1", asked("y", takes_binary=True), [output])
    assert answer.binary_parts == [output.data]


@pytest.mark.parametrize("output", UNSPEAKABLE, ids=lambda tensor: tensor.dtype)
def test_an_output_that_json_cannot_carry_is_400_naming_it_if_the_request_was_json(output: Tensor) -> None:
    with pytest.raises(RequestRefused) as caught:
        format_answer("m", "1", asked("y"), [output])
    assert caught.value.status == 400
    assert "output 'y'" in str(caught.value)
    assert "binary_data_output" in str(caught.value)


@pytest.mark.parametrize("count", [8191, 8192, 8193, 50_000])
def test_many_numbers_are_the_same_json_as_few(count: int) -> None:
    values = [number * 0.5 for number in range(count)]
    data = struct.pack(f"<{count}f", *values)
    answer = format_answer("m", "1", asked("y"), [Tensor("y", "FP32", (count,), data)])
    assert json.loads(answer.json_part)["outputs"][0]["data"] == values
    with pytest.raises(RequestRefused):
        format_answer("m", "1", asked("y"), [Tensor("y", "FP32", (count,), data[:-4] + b"\x00\x00\xc0\x7f")])


def test_finite_numbers_whose_sum_is_not_finite_are_still_json() -> None:
    answer = format_answer("m", "1", asked("y"), [Tensor("y", "FP64", (2,), struct.pack("<2d", 1.7e308, 1.7e308))])
    assert json.loads(answer.json_part)["outputs"][0]["data"] == [1.7e308, 1.7e308]


@given(st.text())
def test_an_error_is_one_json_object_with_error(reason: str) -> None:
    assert json.loads(format_error(reason.encode("utf-8", "replace").decode())) == {
        "error": reason.encode("utf-8", "replace").decode()
    }


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_floats_survive_json_exactly(values: list[float]) -> None:
    data = struct.pack(f"<{len(values)}f", *values)
    answer = format_answer("m", "1", asked("y"), [Tensor("y", "FP32", (len(values),), data)])
    back = json.loads(answer.json_part)["outputs"][0]["data"]
    assert struct.pack(f"<{len(values)}f", *back) == data
