from __future__ import annotations

import pytest

from agent.selection.slower import slower


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.04, "4 % slower than b"), (1.58, "58 % slower than b"), (1.004, "0.4 % slower than b"),
        (1.0, "as fast as b"), (0.98, "2 % faster than b"), (2.0, "2.0 times as slow as b"),
        (5.04, "5.0 times as slow as b"),
    ],
)  # fmt: skip
def test_less_than_twice_is_told_as_per_cent(ratio: float, text: str) -> None:
    assert slower(ratio, "b") == text


def test_the_other_may_be_left_out() -> None:
    assert [slower(ratio) for ratio in (1.04, 3.0, 1.0)] == ["4 % slower", "3.0 times as slow", "as fast"]
