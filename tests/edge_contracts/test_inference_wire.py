from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_contracts.errors import MalformedBundle, MalformedTensor
from edge_contracts.golden import Golden, decode_goldens, encode_goldens
from edge_contracts.inference_wire import (
    Tensor,
    check_tensor,
    decode_binary_body,
    encode_request,
    join_bytes_elements,
    split_bytes_elements,
)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    name = draw(st.text(min_size=1, max_size=20))
    if draw(st.booleans()):
        elements = draw(st.lists(st.binary(max_size=30), max_size=6))
        return Tensor(name, "BYTES", (len(elements),), join_bytes_elements(elements))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    count = 1
    for size in shape:
        count *= size
    return Tensor(name, "FP32", tuple(shape), draw(st.binary(min_size=4 * count, max_size=4 * count)))


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return [(t.name, t.dtype, t.shape, bytes(t.data)) for t in left] == [
        (t.name, t.dtype, t.shape, bytes(t.data)) for t in right
    ]


@given(st.lists(tensors(), max_size=4))
def test_a_binary_request_decodes_to_the_tensors_it_was_made_of(wanted: list[Tensor]) -> None:
    assert same(decode_binary_body(*encode_request(wanted)), wanted)


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_bytes_elements_survive_the_round_trip_empty_and_non_utf8_included(elements: list[bytes]) -> None:
    assert split_bytes_elements("t", join_bytes_elements(elements), len(elements)) == elements


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"\x05\0\0\0abc", 1), (b"\x01\0\0", 1), (b"\x01\0\0\0a", 2), (b"\x01\0\0\0ab", 1), (b"\xff\xff\xff\xffa", 1)],
)
def test_a_bad_prefix_too_few_or_trailing_bytes_are_refused(data: bytes, count: int) -> None:
    with pytest.raises(MalformedTensor):
        split_bytes_elements("t", data, count)


def test_a_dense_tensor_with_the_wrong_number_of_bytes_is_refused_with_both_numbers() -> None:
    with pytest.raises(MalformedTensor, match=r"expected 24 bytes for FP32 \[2, 3\], got 20"):
        check_tensor(Tensor("x", "FP32", (2, 3), b"\0" * 20))


@given(st.binary(max_size=300), st.integers(-5, 400))
def test_any_bytes_are_a_request_or_are_refused_as_one(body: bytes, header_length: int) -> None:
    with contextlib.suppress(MalformedTensor):
        decode_binary_body(body, header_length)


def test_a_header_made_to_exhaust_the_parser_is_refused() -> None:
    header = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(MalformedTensor, match="header"):
        decode_binary_body(header, len(header))


@given(st.lists(st.builds(Golden, st.lists(tensors(), max_size=2), st.lists(tensors(), max_size=2)), max_size=3))
def test_goldens_survive_the_round_trip(goldens: list[Golden]) -> None:
    decoded = decode_goldens(encode_goldens(goldens, model="m"))
    assert len(decoded) == len(goldens)
    assert all(same(a.inputs, b.inputs) and same(a.outputs, b.outputs) for a, b in zip(decoded, goldens, strict=True))


@given(st.binary(max_size=100), st.integers(0, 60))
def test_damaged_goldens_are_refused_and_never_read_past_the_end(tail: bytes, cut: int) -> None:
    blob = encode_goldens([Golden([Tensor("x", "FP32", (1,), b"\0\0\0\0")], [])], model="m")
    for damaged in (blob[: max(0, len(blob) - 1 - cut)], blob + tail, tail):
        try:
            decode_goldens(damaged)
        except MalformedBundle:
            continue
