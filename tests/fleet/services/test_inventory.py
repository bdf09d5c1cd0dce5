from __future__ import annotations

import msgspec
import pytest

from edge_contracts import messages, topics
from edge_contracts.deployment import DeploymentState as S
from edge_contracts.messages import Reported
from fleet.domain.device import Device, DeviceState
from fleet.http.device_views import device_view
from tests.fleet.fleet_in_memory import FleetInMemory
from tests.simulators.device import Plan


@pytest.fixture
def fleet() -> FleetInMemory:
    made = FleetInMemory()
    made.device("cam")
    made.bundle("digits", "1.0.0")
    return made


def stored(fleet: FleetInMemory) -> Device:
    with fleet.store.read() as work:
        device = work.devices.get("cam")
    assert device is not None
    return device


def test_a_birth_brings_facts_and_presence_and_the_will_ends_it(fleet: FleetInMemory) -> None:
    device = stored(fleet)
    assert device.online
    assert device.capabilities is not None
    assert (device.capabilities.board.profile, device.serving_port) == ("simulated", 8000)
    fleet.disconnect("cam")
    fleet.settle()
    assert not stored(fleet).online


def test_the_will_of_a_connection_that_was_taken_over_does_not_put_the_device_offline(fleet: FleetInMemory) -> None:
    """The broker drops the old connection (its will says offline) when the device has come back by a new one."""
    fleet.connect("cam")
    fleet.settle()
    assert stored(fleet).online
    assert stored(fleet).presence.session == 2


def test_telemetry_of_several_messages_is_merged_exactly_and_the_same_message_counts_once(fleet: FleetInMemory) -> None:
    fleet.rollout("1.0.0")
    fleet.settle()
    cam = fleet.devices["cam"]
    cam.telemetry("digits", [1.0] * 50, to_ms=10)
    cam.telemetry("digits", [3.0] * 50, to_ms=20)
    cam.telemetry("digits", [3.0] * 50, to_ms=20)
    fleet.settle()
    (model,) = device_view(fleet.reading.devices()[0]).models
    assert model.requests == 100
    assert model.p50_ms == pytest.approx(1.0, rel=0.03)
    assert model.p90_ms == pytest.approx(3.0, rel=0.03)


def test_a_device_whose_clock_is_set_back_is_heard_again(fleet: FleetInMemory) -> None:
    fleet.rollout("1.0.0")
    fleet.settle()
    cam, year_ms = fleet.devices["cam"], 365 * 86_400_000
    cam.telemetry("digits", [1.0] * 5, to_ms=10 * year_ms)
    cam.telemetry("digits", [1.0] * 5, to_ms=9 * year_ms)
    fleet.settle()
    (model,) = device_view(fleet.reading.devices()[0]).models
    assert model.requests == 10


def test_latency_of_an_earlier_bundle_is_not_shown_for_the_present_one(fleet: FleetInMemory) -> None:
    fleet.bundle("digits", "2.0.0")
    fleet.rollout("1.0.0")
    fleet.settle()
    fleet.devices["cam"].telemetry("digits", [9.0], to_ms=10)
    fleet.rollout("2.0.0")
    fleet.settle()
    (model,) = device_view(fleet.reading.devices()[0]).models
    assert (model.version, model.p50_ms, model.requests) == ("2.0.0", None, 0)


def test_the_view_tells_backend_ratio_and_last_deployment_as_reported(fleet: FleetInMemory) -> None:
    fleet.rollout("1.0.0")
    fleet.settle()
    (model,) = device_view(fleet.reading.devices()[0]).models
    assert model.backend is not None
    assert (model.backend.runtime, model.backend.precision, model.backend.threads) == ("stub", "fp32", 1)
    assert (model.state, model.ratio_vs_onnxruntime_default, model.race_p50_ms) == ("committed", 1.5, 1.0)


def test_the_evidence_of_what_serves_is_kept_when_a_later_bundle_fails(fleet: FleetInMemory) -> None:
    fleet.bundle("digits", "2.0.0")
    fleet.rollout("1.0.0")
    fleet.settle()
    fleet.devices["cam"].plans["2.0.0"] = Plan.FAIL
    fleet.rollout("2.0.0")
    fleet.settle()
    (model,) = device_view(fleet.reading.devices()[0]).models
    assert (model.version, model.state, model.attempted_version) == ("1.0.0", "failed", "2.0.0")
    assert (model.ratio_vs_onnxruntime_default, model.race_p50_ms) == (1.5, 1.0)
    assert model.reason == "8 of 8 golden outputs differ"


def test_an_event_delivered_twice_is_kept_once(fleet: FleetInMemory) -> None:
    cam = fleet.devices["cam"]
    cam.event("engine.crashed", "signal 4")
    cam._events = 0
    cam.event("engine.crashed", "signal 4")
    fleet.settle()
    _, events = fleet.reading.device("cam")
    assert [event.text for event in events] == ["signal 4"]


def test_a_report_that_comes_late_tells_how_a_deployment_ended_and_takes_nothing_back(fleet: FleetInMemory) -> None:
    cam = fleet.devices["cam"]
    cam.plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    in_trial = Reported(version=cam._report_version, session=1, models=dict(cam.models), desired_version=1)
    assert fleet.states(rollout) == {"cam": "trial"}
    entry = cam.models["digits"]
    cam.finish("digits", S.FAILED, "golden")
    failed = Reported(version=cam._report_version, session=1, models=dict(cam.models), desired_version=1)
    newer = Reported(version=99, session=1, models={}, desired_version=1)
    fleet.intake._queue.queue.clear()

    for report in (newer, in_trial, failed, in_trial):
        cam.connection.publish(topics.up("default", "cam", "reported"), messages.encode(report))  # type: ignore[attr-defined]
        fleet.settle()
    assert fleet.states(rollout) == {"cam": "failed"}
    assert stored(fleet).reported == newer
    assert entry.state is S.TRIAL


def test_a_device_on_another_sites_topic_is_a_stranger(fleet: FleetInMemory) -> None:
    fleet.broker.publish(
        "mindedge/v1/#", _outgoing(topics.up("paris", "cam", "status"), b'{"online":false,"session":1}')
    )
    fleet.broker.publish(
        "mindedge/v1/#", _outgoing(topics.up("default", "ghost", "status"), b'{"online":true,"session":1}')
    )
    fleet.settle()
    assert fleet.intake.counters.strangers == 2
    assert stored(fleet).online


@pytest.mark.parametrize("state", [DeviceState.QUARANTINED, DeviceState.DECOMMISSIONED])
def test_what_a_device_says_that_is_no_longer_active_is_counted_and_changes_nothing(
    fleet: FleetInMemory, state: DeviceState
) -> None:
    cam = fleet.devices["cam"]
    cam.plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    with fleet.store.write() as work:
        work.devices.save([msgspec.structs.replace(stored(fleet), state=state)])
        work.commit()
    before, taken = stored(fleet), fleet.intake.counters.stored
    cam.finish("digits", S.COMMITTED)
    cam.telemetry("digits", [1.0], to_ms=10)
    cam.event("engine.crashed", "signal 4")
    said = fleet.intake._queue.qsize()
    fleet.disconnect("cam")
    while fleet.intake.take_batch(0):
        pass
    assert said >= 3
    assert fleet.intake.counters.inactive == said + 1
    assert (fleet.intake.counters.stored, fleet.intake.counters.strangers) == (taken, 0)
    assert (stored(fleet), fleet.states(rollout)) == (before, {"cam": "trial"})
    assert fleet.reading.device("cam")[1] == []
    assert not stored(fleet).online


def _outgoing(topic: str, payload: bytes) -> object:
    from fleet.broker.outbox import Outgoing

    return Outgoing(topic, payload, False)


def test_a_handful_of_requests_has_no_percentiles(fleet: FleetInMemory) -> None:
    fleet.rollout("1.0.0")
    fleet.settle()
    fleet.devices["cam"].telemetry("digits", [1.0] * 19, to_ms=10)
    fleet.settle()
    (model,) = device_view(fleet.reading.devices()[0]).models
    assert (model.requests, model.p50_ms, model.p90_ms) == (19, None, None)
    fleet.devices["cam"].telemetry("digits", [1.0], to_ms=20)
    fleet.settle()
    (model,) = device_view(fleet.reading.devices()[0]).models
    assert model.p90_ms == pytest.approx(1.0, rel=0.03)
