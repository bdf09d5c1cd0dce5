from __future__ import annotations

import msgspec
import pytest

from fleet.domain.history import LatencyMinute
from fleet.domain.rollout import RolloutEvent
from fleet.errors import NotFound
from fleet.services.retention import EVENT_DAYS, LATENCY_DAYS, Retention
from fleet.store.memory import MemoryStore
from fleet.store.stored_event import StoredEvent
from tests.fleet.fleet_in_memory import FleetInMemory
from tests.suites.store_suite import RECORDS

DAY_MS = 86_400_000


def test_old_latencies_and_events_are_forgotten_and_not_looked_for_at_every_tick() -> None:
    store, now_ms = MemoryStore(), 1000 * DAY_MS
    latency, event = RECORDS["latencies"], RECORDS["events"]
    assert isinstance(latency, LatencyMinute)
    assert isinstance(event, StoredEvent)
    with store.write() as work:
        for days in (LATENCY_DAYS - 1, LATENCY_DAYS + 1):
            work.latencies.save([msgspec.structs.replace(latency, minute_ms=now_ms - days * DAY_MS)])
        for days in (EVENT_DAYS - 1, EVENT_DAYS + 1):
            work.events.save([msgspec.structs.replace(event, id=str(days), received_ms=now_ms - days * DAY_MS)])
        work.commit()
    retention = Retention(store, lambda: now_ms)
    assert [retention.sweep(), retention.sweep()] == [2, 0]
    with store.read() as work:
        assert (len(work.latencies.find()), len(work.events.find())) == (1, 1)


@pytest.mark.parametrize("clock_ms", [0, 10**15])
def test_an_event_is_kept_by_the_servers_clock_whatever_the_devices_clock_says(clock_ms: int) -> None:
    fleet = FleetInMemory()
    fleet.now_ms = 1000 * DAY_MS
    cam = fleet.device("cam")
    cam.event("engine.crashed", "signal 4")
    fleet.settle()
    with fleet.store.write() as work:
        work.events.save([msgspec.structs.replace(event, at_ms=clock_ms) for event in work.events.find()])
        work.commit()
    retention = Retention(fleet.store, lambda: fleet.now_ms, every_s=0.0)
    fleet.now_ms += EVENT_DAYS * DAY_MS
    assert retention.sweep() == 0
    fleet.now_ms += 1
    assert retention.sweep() == 1


@pytest.fixture
def fleet() -> FleetInMemory:
    made = FleetInMemory()
    for version in ("1.0.0", "2.0.0"):
        made.bundle("digits", version)
    made.device("cam")
    return made


def test_an_ended_rollout_is_forgotten_with_its_targets_once_it_is_old(fleet: FleetInMemory) -> None:
    first = fleet.rollout("1.0.0")
    fleet.settle()
    draft = fleet.rollout("1.0.0", start=False)
    second = fleet.rollout("2.0.0")
    fleet.settle()
    retention = Retention(fleet.store, lambda: fleet.now_ms, rollout_days=10, every_s=0.0)
    fleet.now_ms += 10 * DAY_MS
    assert retention.sweep() == 0
    fleet.now_ms += 1
    assert retention.sweep() == 1
    with pytest.raises(NotFound):
        fleet.rollouts.get(first)
    with fleet.store.read() as work:
        assert {target.rollout for target in work.targets.find()} == {second}
    assert fleet.head(draft).id == draft
    fleet.settle()
    assert fleet.states(second) == {"cam": "committed"}


def test_a_rollout_that_a_device_still_wishes_is_never_forgotten(fleet: FleetInMemory) -> None:
    first = fleet.rollout("1.0.0")
    fleet.settle()
    second = fleet.rollout("2.0.0")
    fleet.settle()
    fleet.rollouts.act(second, RolloutEvent.ROLLBACK, "rolled back")
    fleet.settle()
    fleet.now_ms += 1000 * DAY_MS
    assert Retention(fleet.store, lambda: fleet.now_ms).sweep() == 1
    with pytest.raises(NotFound):
        fleet.rollouts.get(first)
    assert fleet.head(second).id == second
