from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.hardware.figures import LARGEST, real, whole


@given(st.integers(0, LARGEST))
def test_every_number_that_a_machine_may_say_is_read(number: int) -> None:
    assert whole(f" {number}\n") == number


@pytest.mark.parametrize("text", [None, "", "-1", "1.5", "²", "1e3", "1" * 5000, str(LARGEST + 1), "0x10"])
def test_what_is_no_plausible_number_is_nothing(text: str | None) -> None:
    assert whole(text) is None


@pytest.mark.parametrize(
    ("text", "number"), [("12.8", 12.8), ("-5", -5.0), ("-", None), ("nan", None), ("inf", None), ("1" * 400, None)]
)
def test_a_fraction_is_finite_or_nothing(text: str, number: float | None) -> None:
    assert real(text) == number
