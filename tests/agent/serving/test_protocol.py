from __future__ import annotations

import json
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import RequestRefused
from agent.serving.protocol import MAX_JSON_BYTES, InferenceRequest, RequestParser, header_length
from edge_contracts.inference_wire import Tensor, encode_request, join_bytes_elements
from edge_contracts.tensor_signature import Signature
from tests.agent.serving.signatures import TWO_INPUTS, signature_of

FIELD_INPUTS = Path(__file__).parent / "field_inputs"
FP32 = signature_of()


def parse_request(
    body: bytes, length: int | None, signature: Signature, *, max_json_bytes: int = MAX_JSON_BYTES
) -> InferenceRequest:
    return RequestParser(signature, max_json_bytes=max_json_bytes).parse(body, length)


def request_json(**entry: Any) -> bytes:
    fitting = {"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [0.5] * 8}
    return json.dumps({"inputs": [{**fitting, **entry}]}).encode()


def parse_field_input(name: str, signature: Signature) -> InferenceRequest:
    body = (FIELD_INPUTS / name).read_bytes()
    headers = (FIELD_INPUTS / name).with_suffix(".headers")
    value = None
    if headers.exists():
        lines = dict(line.split(": ") for line in headers.read_text().splitlines() if line)
        value = lines["Inference-Header-Content-Length"].encode()
    return parse_request(body, header_length(value, len(body)), signature)


def refusal(body: bytes, length: int | None = None, signature: Signature = FP32) -> str:
    with pytest.raises(RequestRefused) as caught:
        parse_request(body, length, signature)
    assert caught.value.status == 400
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["C18_header_len_larger_than_body.bin", "C18_header_len_negative.bin", "C18_header_len_not_number.bin",
     "C18_header_len_overflow.bin", "C20_invalid_json.json", "C20_nan_literal.json", "C20_not_utf8.json"],
)  # fmt: skip
def test_a_broken_header_length_or_json_is_refused_with_400(name: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse_field_input(name, FP32)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("name", "named"),
    [("C23_unknown_name.json", "'nope'"), ("C23_duplicate_input.json", "twice"), ("C23_wrong_dtype.json", "'INT64'"),
     ("C23_wrong_rank.json", "[8]"), ("C23_data_count_mismatch.json", "expected 16 values")],
)  # fmt: skip
def test_an_input_that_does_not_fit_is_refused_naming_it_and_the_expected_inputs(name: str, named: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse_field_input(name, FP32)
    assert caught.value.status == 400
    assert named in str(caught.value)
    assert "expected inputs: x FP32 [batch,8]" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["C17_bytes_fewer_elements_than_shape.bin", "C17_bytes_len_prefix_too_big.bin", "C17_bytes_trailing_garbage.bin"],
)
def test_bytes_elements_that_do_not_fill_the_tensor_exactly_are_refused(name: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse_field_input(name, signature_of("BYTES", ["n"], name="s"))
    assert caught.value.status == 400


def test_bytes_elements_arrive_unchanged_even_empty_and_not_utf8() -> None:
    request = parse_field_input("C17_bytes_ok_with_empty_and_non_utf8.bin", signature_of("BYTES", ["n"], name="s"))
    assert request.inputs[0].data == join_bytes_elements([b"ab", b"", b"\xff\xfe", "日本".encode()])


def test_nested_and_flat_data_give_the_same_tensor() -> None:
    nested = parse_field_input("ok_nested_data.json", FP32).inputs[0]
    assert nested.data == struct.pack("<16f", *range(16))
    assert parse_field_input("ok_fp32.bin", FP32).inputs[0].data == nested.data
    strings = parse_field_input("C23_bytes_nested.json", signature_of("BYTES", ["n", 2], name="s")).inputs[0]
    assert strings.data == join_bytes_elements([b"a", b"b", b"c", b"d"])


def test_a_binary_body_without_its_header_length_is_refused_with_a_hint() -> None:
    assert "Inference-Header-Content-Length" in refusal((FIELD_INPUTS / "ok_fp32.bin").read_bytes())


@pytest.mark.parametrize("value", [b"", b"-0", b"+4", b"1e3", b"0", b" 4", b"0x10", b"9" * 5000, "٣".encode()])
def test_a_header_length_that_is_no_plain_number_within_the_body_is_refused(value: bytes) -> None:
    with pytest.raises(RequestRefused) as caught:
        header_length(value, 100)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "opening", ["[", '{"a":', '{"inputs":[{"name":"x","shape":[1,8],"datatype":"FP32","data":', '{"parameters":']
)
def test_deep_nesting_is_refused_at_once(opening: str) -> None:
    body = (opening + "[" * 100_000 + "]" * 100_000).encode()
    started = time.process_time()
    refusal(body)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("dtype", "data"),
    [("FP32", "[1e400]"), ("FP32", "[1e39]"), ("FP32", "[true]"), ("FP32", '["1"]'), ("FP32", "[null]"),
     ("INT64", "[9223372036854775808]"), ("INT8", "[128]"), ("INT8", "[1.5]"), ("UINT8", "[-1]"), ("UINT64", "[-1]"),
     ("UINT64", "[18446744073709551616]"), ("INT64", f"[{'9' * 100_000}]"), ("FP64", f"[{'9' * 100_000}]"),
     ("BOOL", "[1]"), ("BYTES", "[1]"), ("BYTES", '["\\ud800"]'), ("FP32", "{}"), ("FP32", "3"), ("FP32", '"x"'),
     ("FP16", "[1]"), ("BF16", "[1]")],
)  # fmt: skip
def test_a_value_outside_the_datatype_is_refused(dtype: str, data: str) -> None:
    body = f'{{"inputs":[{{"name":"x","shape":[1],"datatype":"{dtype}","data":{data}}}]}}'.encode()
    assert "input 'x'" in refusal(body, signature=signature_of(dtype, ["n"])) or "not valid JSON" in refusal(
        body, signature=signature_of(dtype, ["n"])
    )


@pytest.mark.parametrize(
    "shape",
    [
        "[1,8,1]",
        "[-1,8]",
        "[1,-8]",
        "[18446744073709551615,8]",
        "[9223372036854775807,8]",
        "[1,9]",
        "[]",
        "[1.5,8]",
        "1",
    ],
)
def test_a_shape_that_does_not_fit_is_refused(shape: str) -> None:
    refusal(f'{{"inputs":[{{"name":"x","shape":{shape},"datatype":"FP32","data":[0]}}]}}'.encode())


def test_a_shape_with_a_million_dimensions_costs_no_time() -> None:
    started = time.process_time()
    message = refusal(request_json(shape=[2**62] * 700_000))
    assert time.process_time() - started < 1
    assert len(message) < 500


@pytest.mark.parametrize("data", [[[0] * 8, [0] * 8], [[0] * 4, [0] * 4], [[0] * 7 + [[0]]], [[]], [[0] * 9], []])
def test_nested_data_of_another_shape_is_refused(data: Any) -> None:
    assert "x" in refusal(request_json(data=data))


def test_a_dimension_of_one_name_must_have_one_size() -> None:
    image = {"name": "image", "shape": [2, 4], "datatype": "UINT8", "data": [0] * 8}
    text = {"name": "text", "shape": [3], "datatype": "BYTES", "data": ["a", "b", "c"]}
    assert "dimension 'batch' is 2 in input 'image' and 3" in refusal(
        json.dumps({"inputs": [image, text]}).encode(), signature=TWO_INPUTS
    )


def test_inputs_come_out_in_the_order_of_the_signature() -> None:
    image = {"name": "image", "shape": [1, 4], "datatype": "UINT8", "data": [1, 2, 3, 4]}
    text = {"name": "text", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 5}}
    header = json.dumps({"inputs": [text, image]}).encode()
    request = parse_request(header + join_bytes_elements([b"a"]), len(header), TWO_INPUTS)
    assert [(tensor.name, bytes(tensor.data)) for tensor in request.inputs] == [
        ("image", b"\1\2\3\4"),
        ("text", b"\1\0\0\0a"),
    ]
    assert request.takes_binary


def test_a_missing_input_is_named() -> None:
    assert "input 'text' is missing" in refusal(
        json.dumps({"inputs": [{"name": "image", "shape": [1, 4], "datatype": "UINT8", "data": [0] * 4}]}).encode(),
        signature=TWO_INPUTS,
    )


@pytest.mark.parametrize("size", [-1, 2**70, 31, 33, "32", 32.0, True, [32]])
def test_a_wrong_binary_data_size_is_refused(size: Any) -> None:
    entry = {"name": "x", "shape": [1, 8], "datatype": "FP32", "parameters": {"binary_data_size": size}}
    header = json.dumps({"inputs": [entry]}).encode()
    refusal(header + bytes(32), len(header))


def test_bytes_after_the_last_tensor_are_refused() -> None:
    body, length = encode_request([Tensor("x", "FP32", (1, 8), bytes(32))])
    assert "1 bytes after the last binary input" in refusal(body + b"\0", length)


def test_data_together_with_binary_data_is_refused() -> None:
    header = request_json(parameters={"binary_data_size": 32})
    assert "both" in refusal(header + bytes(32), len(header))
    assert "neither" in refusal(request_json(data=None))


def test_shared_memory_and_classification_are_refused_by_name() -> None:
    assert "shared memory" in refusal(request_json(parameters={"shared_memory_region": "r"}))
    body = json.loads(request_json())
    body["outputs"] = [{"name": "y", "parameters": {"classification": 3}}]
    assert "classification" in refusal(json.dumps(body).encode())


def test_an_unknown_or_repeated_output_is_refused_listing_the_outputs() -> None:
    body = json.loads(request_json())
    body["outputs"] = [{"name": "z"}]
    assert "outputs are: y FP32 [batch,8]" in refusal(json.dumps(body).encode())
    body["outputs"] = [{"name": "y"}, {"name": "y"}]
    assert "twice" in refusal(json.dumps(body).encode())


def test_the_output_form_follows_the_output_then_the_request() -> None:
    body = json.loads(request_json())
    assert [output.binary for output in parse_request(json.dumps(body).encode(), None, FP32).outputs] == [False]
    body["parameters"] = {"binary_data_output": True}
    assert [output.binary for output in parse_request(json.dumps(body).encode(), None, FP32).outputs] == [True]
    body["outputs"] = [{"name": "y", "parameters": {"binary_data": False}}]
    request = parse_request(json.dumps(body).encode(), None, FP32)
    assert [output.binary for output in request.outputs] == [False]
    assert not request.takes_binary


def test_json_beyond_the_limit_is_refused_with_413_but_binary_is_not() -> None:
    body, length = encode_request([Tensor("x", "FP32", (1000, 8), bytes(32000))])
    assert parse_request(body, length, FP32, max_json_bytes=1000).inputs[0].shape == (1000, 8)
    with pytest.raises(RequestRefused) as caught:
        parse_request(request_json(shape=[100, 8], data=[0] * 800), None, FP32, max_json_bytes=1000)
    assert caught.value.status == 413


@pytest.mark.parametrize(
    ("dtype", "number", "code"),
    [("FP32", "-0.125", "f"), ("INT16", "-7", "h"), ("BOOL", "true", "?"), ("UINT64", "9" * 19, "Q")],
)
@pytest.mark.parametrize("count", [100_000, 100_001])
def test_many_numbers_are_decoded_piece_by_piece_to_the_same_bytes(
    dtype: str, number: str, code: str, count: int
) -> None:
    data = ", ".join([number] * count)
    body = f'{{"inputs":[{{"name":"x","shape":[{count}],"datatype":"{dtype}","data":[ {data} ]}}]}}'.encode()
    assert len(body) > 256 * 1024
    parsed = parse_request(body, None, signature_of(dtype, ["n"])).inputs[0]
    assert parsed.data == struct.pack(f"<{count}{code}", *[json.loads(number)] * count)


@pytest.mark.parametrize("shape", [[2, 3], [3, 1, 2], [1, 1, 1], [2, 0], [0], [2, 3, 0, 1], [60, 30, 40]])
def test_nested_data_must_have_exactly_the_structure_of_the_shape(shape: list[int]) -> None:
    count = 1
    for size in shape:
        count *= size
    signature = signature_of("INT32", [f"d{axis}" for axis in range(len(shape))])
    text = json.dumps(nested(list(range(count)), shape))
    entry = '{"inputs":[{"name":"x","shape":%s,"datatype":"INT32","data":%s}]}'
    parsed = parse_request((entry % (shape, text)).encode(), None, signature).inputs[0]
    assert parsed.data == struct.pack(f"<{count}i", *range(count))
    for wrong in (
        text[:-1] + ", 5]",
        "[" + text + "]",
        text.replace("1", "1, 1", 1),
        text[1:-1],
        text.replace("[", "{"),
    ):
        if wrong != text:
            refusal((entry % (shape, wrong)).encode(), signature=signature)


def test_a_nested_shape_of_astronomic_size_costs_nothing() -> None:
    body = b'{"inputs":[{"name":"x","shape":[4611686018427387904,0],"datatype":"INT32","data":[[]]}]}'
    assert "nested data" in refusal(body, signature=signature_of("INT32", ["a", "b"]))


@pytest.mark.parametrize("wrong", ["true", '"1"', "[1]", "null", "1e39", "{}"])
def test_one_wrong_value_among_many_is_found(wrong: str) -> None:
    data = ",".join(["0.125"] * 100_000 + [wrong] + ["0.125"] * 7)
    body = f'{{"inputs":[{{"name":"x","shape":[12501,8],"datatype":"FP32","data":[{data}]}}]}}'.encode()
    assert "input 'x': data" in refusal(body)
    assert "expected 8 values" in refusal(body.replace(wrong.encode(), b"1").replace(b"12501", b"1"))


def test_a_megabyte_of_numbers_stays_within_a_bounded_memory() -> None:
    body = b'{"inputs":[{"name":"x","shape":[31251,8],"datatype":"FP32","data":[' + b"0.1," * 250_007 + b"0]}]}"
    parser = RequestParser(FP32)
    tracemalloc.start()
    parser.parse(body, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(body)


FORMATS = {
    "BOOL": ("?", st.booleans()), "UINT8": ("B", st.integers(0, 255)), "UINT16": ("H", st.integers(0, 2**16 - 1)),
    "UINT32": ("I", st.integers(0, 2**32 - 1)), "UINT64": ("Q", st.integers(0, 2**64 - 1)),
    "INT8": ("b", st.integers(-128, 127)), "INT16": ("h", st.integers(-(2**15), 2**15 - 1)),
    "INT32": ("i", st.integers(-(2**31), 2**31 - 1)), "INT64": ("q", st.integers(-(2**63), 2**63 - 1)),
    "FP32": ("f", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "FP64": ("d", st.floats(allow_nan=False, allow_infinity=False)),
}  # fmt: skip


def nested(values: list[Any], shape: list[int]) -> Any:
    if len(shape) == 1:
        return values
    step = len(values) // shape[0] if shape[0] else 0
    return [nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


@given(st.data(), st.sampled_from(sorted(FORMATS)), st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_json_flat_or_nested_gives_the_bytes_of_struct(data: st.DataObject, dtype: str, shape: list[int]) -> None:
    count = 1
    for size in shape:
        count *= size
    code, element = FORMATS[dtype]
    values = data.draw(st.lists(element, min_size=count, max_size=count))
    signature = signature_of(dtype, [f"d{axis}" for axis in range(len(shape))])
    for form in (values, nested(values, shape)):
        body = {"inputs": [{"name": "x", "shape": shape, "datatype": dtype, "data": form}]}
        parsed = parse_request(json.dumps(body).encode(), None, signature).inputs[0]
        assert parsed.data == struct.pack(f"<{count}{code}", *values)


def outcome(body: bytes, length: int | None) -> int | list[str]:
    """The names of the parsed inputs, or the status of the refusal; any other error is the caller's failure."""
    try:
        return [tensor.name for tensor in parse_request(body, length, TWO_INPUTS).inputs]
    except RequestRefused as refused:
        return refused.status


KEYS = ["inputs", "outputs", "name", "shape", "datatype", "data", "parameters", "id", "binary_data_size"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(KEYS), inner, max_size=6,
    ),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=300)
@given(JSON, st.binary(max_size=40), st.none() | st.integers(1, 200))
def test_any_json_is_parsed_or_refused_and_never_anything_else(document: Any, tail: bytes, length: int | None) -> None:
    body = json.dumps(document).encode() + tail
    assert outcome(body, None if length is None else min(length, len(body))) in (400, ["image", "text"])


@settings(max_examples=300)
@given(st.data())
def test_a_valid_binary_request_with_changed_bytes_is_parsed_or_refused(data: st.DataObject) -> None:
    body, length = encode_request(
        [Tensor("image", "UINT8", (2, 4), bytes(8)), Tensor("text", "BYTES", (2,), join_bytes_elements([b"a", b""]))]
    )
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(changed[: data.draw(st.integers(1, len(body)))])
    assert outcome(cut, min(length, len(cut))) in (400, ["image", "text"])
