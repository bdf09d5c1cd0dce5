from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.inference.thread_counts import big_cores, thread_counts
from edge_contracts.capabilities import Capabilities, CpuCluster, CpuFacts


def device(*clusters: tuple[int, int | None]) -> Capabilities:
    return Capabilities(cpu=CpuFacts(clusters=[CpuCluster(cores=n, capacity=capacity) for n, capacity in clusters]))


def test_all_cores_the_big_ones_half_and_one() -> None:
    assert thread_counts(8, device((4, 414), (2, 1024), (2, 1024))) == [8, 4, 1]
    assert thread_counts(8, device((6, 414), (2, 1024))) == [8, 2, 4, 1]
    assert thread_counts(4, Capabilities()) == [4, 2, 1]
    assert thread_counts(1, device((4, 414), (4, 1024))) == [1]


@pytest.mark.parametrize("clusters", [[], [(4, 1024)], [(4, 1024), (4, 1024)], [(4, None), (4, 1024)]])
def test_without_unlike_known_clusters_there_are_no_big_cores(clusters: list[tuple[int, int | None]]) -> None:
    assert big_cores(device(*clusters)) is None


def test_clusters_that_are_switched_off_do_not_count() -> None:
    off = CpuCluster(cores=4, capacity=1024, online=False)
    on = [CpuCluster(cores=4, capacity=300), CpuCluster(cores=2, capacity=800)]
    assert big_cores(Capabilities(cpu=CpuFacts(clusters=[off, *on]))) == 2


@given(st.integers(1, 64), st.lists(st.tuples(st.integers(1, 16), st.integers(1, 1024)), max_size=4))
def test_counts_are_distinct_begin_with_all_and_end_with_one(threads: int, clusters: list[tuple[int, int]]) -> None:
    counts = thread_counts(threads, device(*clusters))
    assert counts[0] == threads
    assert counts[-1] == 1
    assert len(set(counts)) == len(counts)
    assert all(1 <= count <= threads for count in counts)
