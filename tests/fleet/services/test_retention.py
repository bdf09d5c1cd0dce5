from __future__ import annotations

import msgspec

from fleet.domain.history import DeviceEvent, LatencyMinute
from fleet.services.retention import EVENT_DAYS, LATENCY_DAYS, Retention
from fleet.store.memory import MemoryStore
from tests.suites.store_suite import RECORDS

DAY_MS = 86_400_000


def test_old_latencies_and_events_are_forgotten_and_not_looked_for_at_every_tick() -> None:

    store, now_ms = MemoryStore(), 1000 * DAY_MS
    latency, event = RECORDS["latencies"], RECORDS["events"]
    assert isinstance(latency, LatencyMinute)
    assert isinstance(event, DeviceEvent)
    with store.write() as work:
        for days in (LATENCY_DAYS - 1, LATENCY_DAYS + 1):
            work.latencies.save([msgspec.structs.replace(latency, minute_ms=now_ms - days * DAY_MS)])
        for days in (EVENT_DAYS - 1, EVENT_DAYS + 1):
            work.events.save([msgspec.structs.replace(event, id=str(days), at_ms=now_ms - days * DAY_MS)])
        work.commit()
    retention = Retention(store, lambda: now_ms)
    assert [retention.sweep(), retention.sweep()] == [2, 0]
    with store.read() as work:
        assert (len(work.latencies.find()), len(work.events.find())) == (1, 1)
