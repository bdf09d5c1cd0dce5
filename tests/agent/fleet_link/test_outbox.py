from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.disk import PUBLIC, RealDisk
from agent.fleet_link.outbox import MAX_TELEMETRY, Outbox, merged
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import Event, Reported, StageLatency, Telemetry


def report(version: int) -> Reported:
    return Reported(version=version, session=0, models={})


def event(number: int) -> Event:
    return Event(id=str(number), at_ms=0, kind="test", text="x")


def latency(*values_us: float, digest: str = "sha256:a") -> StageLatency:
    sketch = LatencySketch()
    for value in values_us:
        sketch.add(value)
    return StageLatency(version="1", digest=digest, stages={"total": sketch.to_data()}, requests=len(values_us))


def span(start: int, models: dict[str, StageLatency] | None = None) -> Telemetry:
    return Telemetry(session=0, from_ms=start, to_ms=start + 1, models=models or {})


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path, RealDisk(), 5)


def versions(outbox: Outbox) -> list[int]:
    return [entry.message.version for entry in outbox.waiting() if isinstance(entry.message, Reported)]


def test_a_report_in_between_is_replaced_and_an_end_is_not(outbox: Outbox) -> None:
    for version, final in ((1, False), (2, False), (3, True), (4, False), (5, True), (6, False), (7, False)):
        outbox.put_report(report(version), final=final)
    assert versions(outbox) == [3, 5, 7]


def test_the_oldest_events_give_way_and_are_counted(outbox: Outbox) -> None:
    for number in range(8):
        outbox.put_event(event(number))
    kept = [entry.message.id for entry in outbox.waiting() if isinstance(entry.message, Event)]
    assert kept == ["3", "4", "5", "6", "7"]
    assert outbox.dropped == 3


def test_ends_are_kept_however_many_there_are(outbox: Outbox) -> None:
    for version in range(500):
        outbox.put_report(report(version), final=True)
    assert versions(outbox) == list(range(500))


def test_what_was_confirmed_is_gone_after_a_restart_and_the_rest_is_not(outbox: Outbox, tmp_path: Path) -> None:
    for version in (1, 2, 3):
        outbox.put_report(report(version), final=True)
    outbox.put_event(event(1))
    outbox.confirm(outbox.waiting()[1].number)
    again = Outbox(tmp_path, RealDisk(), 5)
    again.load()
    assert versions(again) == [2, 3]
    again.put_report(report(4), final=True)
    assert versions(again) == [2, 3, 4]
    assert len({entry.number for entry in again.waiting()}) == 4


def test_a_torn_file_is_dropped(outbox: Outbox, tmp_path: Path) -> None:
    outbox.put_report(report(1), final=True)
    outbox.put_report(report(2), final=True)
    first = min(tmp_path.iterdir())
    first.write_bytes(first.read_bytes()[:40])
    again = Outbox(tmp_path, RealDisk(), 5)
    again.load()
    assert versions(again) == [2]


def test_a_full_disk_keeps_the_message_in_memory(tmp_path: Path) -> None:
    class Full(RealDisk):
        def replace(self, path: Path, data: bytes, mode: int = PUBLIC) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    outbox = Outbox(tmp_path, Full(), 5)
    outbox.put_report(report(1), final=True)
    assert versions(outbox) == [1]
    outbox.confirm(outbox.waiting()[0].number)
    assert versions(outbox) == []


def test_telemetry_is_merged_and_split_where_the_bundle_changed(outbox: Outbox) -> None:
    for start in range(4):
        outbox.put_telemetry(span(start, {"digits": latency(100.0)}))
    outbox.put_telemetry(span(9, {"digits": latency(100.0, digest="sha256:b")}))
    told = [entry.message for entry in outbox.waiting()]
    assert [(one.from_ms, one.to_ms) for one in told if isinstance(one, Telemetry)] == [(0, 4), (9, 10)]


def test_telemetry_is_bounded(outbox: Outbox) -> None:
    for start in range(100):
        outbox.put_telemetry(span(start, {"digits": latency(1.0, digest=f"sha256:{start}")}))
    assert len(outbox.waiting()) == MAX_TELEMETRY


@given(st.lists(st.lists(st.floats(1, 1e6), min_size=1, max_size=5), min_size=1, max_size=6))
def test_merging_spans_loses_no_request(spans: list[list[float]]) -> None:
    total = span(0, {"digits": latency(*spans[0])})
    for start, values in enumerate(spans[1:], 1):
        total = merged(total, span(start, {"digits": latency(*values)}))
    flat = [value for values in spans for value in values]
    assert total.models["digits"].requests == len(flat)
    assert total.models["digits"].stages["total"].buckets == latency(*flat).stages["total"].buckets
    assert (total.from_ms, total.to_ms) == (0, len(spans))
