from __future__ import annotations

from agent.update.recent_latency import PART_S, SPAN_S, RecentLatency
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency
from tests.simulators.fake_clock import FakeClock


def infer(ms: float, count: int = 10, digest: str = "sha256:a", stage: str = "infer") -> StageLatency:
    sketch = LatencySketch()
    sketch.add(ms * 1000, count)
    return StageLatency(version="1", digest=digest, stages={stage: sketch.to_data()}, requests=count)


def count(recent: RecentLatency, digest: str = "sha256:a") -> int:
    sketch = recent.of("digits", digest)
    return 0 if sketch is None else sketch.count


def test_the_last_hour_is_kept_and_no_more() -> None:
    clock = FakeClock()
    recent = RecentLatency(clock.monotonic)
    for _ in range(int(2 * SPAN_S / 30)):
        recent.add("digits", infer(5.0, count=1))
        clock.elapsed_s += 30
    assert (SPAN_S - PART_S) / 30 <= count(recent) <= SPAN_S / 30
    clock.elapsed_s += SPAN_S
    assert recent.of("digits", "sha256:a") is None


def test_another_bundle_begins_anew_and_the_old_one_is_forgotten() -> None:
    recent = RecentLatency(FakeClock().monotonic)
    recent.add("digits", infer(5.0))
    recent.add("digits", infer(7.0, count=3, digest="sha256:b"))
    assert (count(recent), count(recent, "sha256:b")) == (0, 3)


def test_only_the_time_in_the_runtime_counts_as_in_a_trial() -> None:
    recent = RecentLatency(FakeClock().monotonic)
    recent.add("digits", infer(5.0, stage="total"))
    assert recent.of("digits", "sha256:a") is None
