from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_contracts.enrolment import EnrolmentToken, encode_token, parse_token
from edge_contracts.errors import MalformedMessage


@given(st.text(min_size=1, max_size=60), st.booleans())
def test_a_token_parses_back_with_white_space_around_it(secret: str, tls: bool) -> None:
    token = EnrolmentToken(server=f"http{'s' * tls}://127.0.0.1:8080", secret=secret, root_sha256="ab" * 32)
    assert parse_token(f"  {encode_token(token)}\n") == token


@pytest.mark.parametrize("text", ["", "hello", "mindedge1.", "mindedge1.!!!", "mindedge1.e30"])
def test_what_is_no_token_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(MalformedMessage, match="token"):
        parse_token(text)


def test_a_token_with_a_foreign_scheme_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="server address"):
        parse_token(encode_token(EnrolmentToken(server="file:///etc/passwd", secret="s")))


@given(st.text(max_size=100))
def test_any_text_is_a_token_or_is_refused_as_one(text: str) -> None:
    with contextlib.suppress(MalformedMessage):
        parse_token(text)
