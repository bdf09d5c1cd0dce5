from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.broker.backoff import Backoff

POLICY = Backoff(first_s=0.5, cap_s=30.0, stable_s=60.0)


def test_the_wait_doubles_up_to_the_cap() -> None:
    assert [POLICY.ceiling_s(n) for n in (1, 2, 3, 7, 8)] == [0.5, 1.0, 2.0, 30.0, 30.0]


@given(st.integers(1, 10**9))
def test_the_wait_never_shrinks_and_never_passes_the_cap(failures: int) -> None:
    assert POLICY.ceiling_s(failures) <= POLICY.ceiling_s(failures + 1) <= POLICY.cap_s


def test_only_a_stable_time_resets_the_count() -> None:
    assert POLICY.failures_after(5, lasted_s=59.9) == 6
    assert POLICY.failures_after(5, lasted_s=60.0) == 1
