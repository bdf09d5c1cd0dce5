from __future__ import annotations

from agent.selection.halving import Standing
from agent.selection.objective import best, drops_on_the_way, race_fraction
from agent.selection.statistics import RatioBounds

TABLE = [
    Standing("t4", 100.0, RatioBounds(1.0, 1.0, 1.0)),
    Standing("t1", 100.6, RatioBounds(0.98, 1.006, 1.03)),
    Standing("lean", 250.0, RatioBounds(2.4, 2.5, 2.6)),
    Standing("lean-too", 240.0, RatioBounds(2.3, 2.4, 2.5)),
]
THREADS = {"t4": 4, "t1": 1, "lean": 1, "lean-too": 1}
PEAKS = {"t4": 120.0, "t1": 110.0, "lean": 60.0, "lean-too": 61.5}


def test_latency_takes_the_fewest_threads_near_the_best() -> None:
    assert best("latency", TABLE, THREADS, PEAKS).name == "t1"


def test_memory_takes_the_leanest_and_of_equally_lean_ones_the_fastest() -> None:
    assert best("memory", TABLE, THREADS, PEAKS).name == "lean-too"


def test_what_is_raced_fits_the_objective() -> None:
    assert race_fraction("latency") == 0.9
    assert race_fraction("throughput") is None
    assert drops_on_the_way("latency")
    assert not drops_on_the_way("memory")
