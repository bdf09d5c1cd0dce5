"""Numbers and times."""

from __future__ import annotations

from datetime import timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.tui.view_models import wording


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0.4, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (172_799, "47 h"),
     (172_800, "2 d")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert wording.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.2514, "0.251"),
     (0.0267, "0.0267"), (0, "0"), (0.99951, "1.00"), (9.994, "9.99"), (9.996, "10.0"), (99.96, "100"),
     (1234.5, "1234")],
)  # fmt: skip
def test_milliseconds_have_three_digits(value: float | None, text: str) -> None:
    assert wording.milliseconds(value) == text


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_a_percentage_says_100_only_when_all_and_0_only_when_none(part: int, whole: int) -> None:
    part = min(part, whole)
    text = wording.percent(part, whole)
    assert (text == "100 %") == (whole > 0 and part == whole)
    assert (text == "0 %") == (part == 0)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_264_000, "1.3 MB"), (9_960_000, "10 MB"), (10**12, "1000 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert wording.size(count) == text


def test_a_time_of_today_has_no_date_and_nonsense_is_no_time() -> None:
    now_ms = 1_790_000_000_000
    assert wording.clock_time(now_ms - 1000, now_ms, timezone.utc) == "14:13:19"
    assert wording.clock_time(now_ms - 86_400_000, now_ms, timezone.utc) == "09-20 14:13"
    assert wording.clock_time(10**18, now_ms, timezone.utc) == "-"
