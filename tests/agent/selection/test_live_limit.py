from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.selection.live_limit import expected_mb, live_limit, trial_memory_limit_mb
from tests.simulators.bundle_factory import affine_spec


@pytest.mark.parametrize(
    ("available_mb", "expected"),
    [(None, 8), (8000, 8), (464, 4), (463, 3), (164, 1), (60, 1), (0, 1)],
)
def test_as_many_trials_live_as_fit_beside_the_reserve_and_at_least_one(
    available_mb: int | None, expected: int
) -> None:
    assert live_limit(available_mb, 64, 100, 8) == expected


@given(st.one_of(st.none(), st.integers(0, 10**6)), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(1, 20))
def test_the_limit_is_never_under_one_nor_over_what_is_wanted(a: int | None, r: int, size: int, wanted: int) -> None:
    assert 1 <= live_limit(a, r, size, wanted) <= wanted


def test_a_bigger_model_is_expected_to_take_more() -> None:
    small = affine_spec("s", "onnxruntime", "m", size_bytes=1 << 20)
    big = affine_spec("b", "onnxruntime", "m", size_bytes=100 << 20)
    stated = affine_spec("p", "onnxruntime", "m", size_bytes=1 << 20, peak_memory_bytes=500 << 20)
    assert expected_mb(small) < expected_mb(big) < expected_mb(stated)


def test_one_trial_may_take_what_is_free_less_the_reserve() -> None:
    assert trial_memory_limit_mb(1000, 64) == 936
    assert trial_memory_limit_mb(10, 64) == 64
    assert trial_memory_limit_mb(None, 64) is None
