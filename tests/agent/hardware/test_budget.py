from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.hardware.budget import combine, threads_of
from edge_contracts.capabilities import BudgetSource


@pytest.mark.parametrize(("cpus", "threads"), [(0.5, 1), (1.0, 1), (1.5, 1), (2.9, 2), (4.0, 4), (None, 1)])
def test_threads_are_the_whole_cpus_of_the_budget(cpus: float | None, threads: int) -> None:
    assert threads_of(cpus) == threads


@given(st.none() | st.floats(0.001, 1024))
def test_there_is_always_a_thread(cpus: float | None) -> None:
    assert threads_of(cpus) >= 1


def test_the_tightest_limit_wins_and_is_named() -> None:
    assert combine(online=12, affinity=8, quota=4.0) == (4.0, BudgetSource.CGROUP)
    assert combine(online=12, affinity=2, quota=4.0) == (2.0, BudgetSource.AFFINITY)
    assert combine(online=4, affinity=4, quota=4.0) == (4.0, BudgetSource.CORES)
    assert combine(online=None, affinity=None, quota=0.5) == (0.5, BudgetSource.CGROUP)


def test_nothing_known_is_no_budget() -> None:
    assert combine(None, None, None) == (None, BudgetSource.UNKNOWN)
