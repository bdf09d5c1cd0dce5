from __future__ import annotations

import msgspec
import pytest

from edge_contracts.deployment import DeploymentState as S
from edge_contracts.messages import Policy
from fleet.domain.rollout import RolloutEvent, RolloutState
from fleet.domain.targeting import Selector
from fleet.domain.wave import ErrorAction, SuccessAction, WavePolicy, WaveState
from fleet.errors import InvalidRequest, InvalidRollout, NotFound, UnsignedBundle
from tests.fleet.fleet_in_memory import FleetInMemory, digest_of
from tests.simulators.device import Plan


@pytest.fixture
def fleet() -> FleetInMemory:
    made = FleetInMemory()
    for version in ("1.0.0", "2.0.0"):
        made.bundle("digits", version)
    return made


def three(fleet: FleetInMemory) -> None:
    for name in ("a", "b", "c"):
        fleet.device(name)


def test_waves_follow_one_another_and_the_rollout_ends(fleet: FleetInMemory) -> None:
    three(fleet)
    rollout = fleet.rollout("1.0.0", waves=["1", "100%"], max_in_flight=1)
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED
    assert fleet.head(rollout).why == "3 devices committed"
    assert fleet.states(rollout) == dict.fromkeys("abc", "committed")


def test_the_second_wave_waits_for_the_first(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.devices["a"].plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("1.0.0", waves=["1", "100%"])
    fleet.after_s(100)
    assert fleet.states(rollout) == {"a": "trial", "b": "waiting", "c": "waiting"}
    fleet.devices["a"].finish("digits", S.COMMITTED)
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED


def test_no_more_devices_than_allowed_work_at_once(fleet: FleetInMemory) -> None:
    three(fleet)
    for device in fleet.devices.values():
        device.plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("1.0.0", max_in_flight=2)
    fleet.settle()
    assert fleet.states(rollout) == {"a": "trial", "b": "trial", "c": "waiting"}
    fleet.devices["b"].finish("digits", S.COMMITTED)
    fleet.settle()
    assert fleet.states(rollout) == {"a": "trial", "b": "committed", "c": "trial"}


def test_a_bad_update_stops_at_the_first_device_and_says_why(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.rollout("1.0.0")
    fleet.settle()
    for device in fleet.devices.values():
        device.plans["2.0.0"] = Plan.FAIL
    rollout = fleet.rollout("2.0.0", waves=["1", "100%"])
    fleet.settle()
    head = fleet.head(rollout)
    assert head.state is RolloutState.PAUSED
    assert head.why == (
        "wave 1: 1 of 1 targeted devices failed (100 %, more than 0 %); a: 8 of 8 golden outputs differ"
    )  # fmt: skip
    assert fleet.targets(rollout)["a"].reason == "8 of 8 golden outputs differ"
    assert fleet.targets(rollout)["a"].error_code == "golden_mismatch"
    assert [len(fleet.devices[name].heard) for name in "abc"] == [2, 1, 1]


def test_resuming_accepts_the_failures_so_far_and_goes_on(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.devices["a"].plans["1.0.0"] = Plan.FAIL
    rollout = fleet.rollout("1.0.0", waves=["1", "100%"])
    fleet.settle()
    fleet.rollouts.act(rollout, RolloutEvent.RESUME, "resumed")
    fleet.settle()
    head = fleet.head(rollout)
    assert head.waves[0].state is WaveState.ACCEPTED
    assert head.state is RolloutState.SUCCEEDED
    assert head.why == "2 devices committed, 1 failed"


def test_a_failure_after_resuming_stops_an_unfinished_wave_again(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.devices["a"].plans["1.0.0"] = Plan.FAIL
    fleet.devices["c"].plans["1.0.0"] = Plan.FAIL
    rollout = fleet.rollout("1.0.0", max_in_flight=1)
    fleet.settle()
    assert fleet.states(rollout) == {"a": "failed", "b": "waiting", "c": "waiting"}
    fleet.rollouts.act(rollout, RolloutEvent.RESUME, "resumed")
    fleet.settle()
    assert fleet.states(rollout) == {"a": "failed", "b": "committed", "c": "failed"}
    assert fleet.head(rollout).state is RolloutState.PAUSED


def test_an_offline_device_neither_holds_a_slot_nor_fails_the_wave(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.lose("a")
    rollout = fleet.rollout("1.0.0", max_in_flight=1)
    fleet.settle()
    assert fleet.states(rollout) == {"a": "waiting", "b": "committed", "c": "committed"}
    assert fleet.head(rollout).state is RolloutState.RUNNING
    fleet.after_s(601)
    assert fleet.head(rollout).waves[0].state is WaveState.SUCCEEDED
    assert fleet.targets(rollout)["a"].straggler
    assert fleet.head(rollout).state is RolloutState.RUNNING
    fleet.connect("a")
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED
    assert fleet.head(rollout).tail.state is WaveState.SUCCEEDED


def test_a_wave_whose_devices_are_all_offline_pauses_with_nothing_executed(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.lose("a")
    rollout = fleet.rollout("1.0.0", waves=["1", "100%"])
    fleet.after_s(601)
    assert fleet.head(rollout).state is RolloutState.PAUSED
    assert "nothing executed" in str(fleet.head(rollout).why)
    assert fleet.states(rollout) == dict.fromkeys("abc", "waiting")


def test_a_late_device_that_never_comes_is_let_go_and_the_rollout_ends(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.lose("c")
    rollout = fleet.rollout("1.0.0", tail_expires_s=3600.0)
    fleet.after_s(601)
    fleet.after_s(3601)
    assert fleet.states(rollout)["c"] == "canceled"
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED
    assert fleet.head(rollout).why == "2 devices committed, 1 withdrawn"


def test_a_device_that_is_asked_and_silent_leaves_the_wave(fleet: FleetInMemory) -> None:
    three(fleet)
    broken = fleet.devices["a"]
    broken.received = lambda topic, payload: None  # type: ignore[method-assign]
    rollout = fleet.rollout("1.0.0", max_in_flight=1)
    fleet.settle()
    assert fleet.states(rollout) == {"a": "queued", "b": "waiting", "c": "waiting"}
    fleet.after_s(601)
    assert fleet.states(rollout) == {"a": "queued", "b": "committed", "c": "committed"}
    fleet.after_s(601)
    assert fleet.targets(rollout)["a"].state is S.TIMED_OUT
    assert fleet.head(rollout).state is RolloutState.PAUSED


def test_a_state_that_lasts_too_long_is_timed_out_counts_as_failure_and_is_withdrawn(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.rollout("1.0.0")
    fleet.settle()
    fleet.devices["a"].plans["2.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("2.0.0", waves=["1", "100%"], deadlines_s={"trial": 60.0})
    fleet.after_s(61)
    target = fleet.targets(rollout)["a"]
    assert (target.state, target.reason, target.error_code) == (S.TIMED_OUT, "trial for more than 60 s", "timed_out")
    assert fleet.head(rollout).state is RolloutState.PAUSED
    wish = fleet.devices["a"].heard[-1].models["digits"]
    assert (wish.version, wish.deployment) == ("1.0.0", f"{rollout}-1-back")


def test_an_abort_takes_the_wish_back_from_devices_in_the_middle_and_from_no_other(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.devices["b"].plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    fleet.rollouts.act(rollout, RolloutEvent.ABORT, "aborted by the operator")
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.ABORTED
    assert fleet.states(rollout) == {"a": "committed", "b": "canceled", "c": "committed"}
    assert fleet.devices["b"].heard[-1].models == {}
    assert fleet.devices["a"].heard[-1].models["digits"].version == "1.0.0"


def test_roll_back_all_sends_every_device_to_what_it_had(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.rollout("1.0.0")
    fleet.settle()
    fleet.devices["c"].plans["2.0.0"] = Plan.FAIL
    policy = WavePolicy(error_action=ErrorAction.ROLLBACK_ALL)
    rollout = fleet.rollout("2.0.0", waves=[policy], max_in_flight=1)
    fleet.settle()
    head = fleet.head(rollout)
    assert head.state is RolloutState.ROLLED_BACK
    assert "1 of 3 targeted devices failed" in str(head.why)
    assert "2 of 2 devices are back" in str(head.why)
    assert [device.serving("digits") for device in fleet.devices.values()] == ["1.0.0"] * 3


def test_roll_back_of_one_wave_leaves_the_others_and_pauses(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.rollout("1.0.0")
    fleet.settle()
    fleet.devices["c"].plans["2.0.0"] = Plan.FAIL
    second = WavePolicy(error_action=ErrorAction.ROLLBACK_WAVE)
    rollout = fleet.rollout("2.0.0", waves=["1", second], max_in_flight=1)
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.PAUSED
    versions = {name: device.serving("digits") for name, device in fleet.devices.items()}
    assert versions == {"a": "2.0.0", "b": "1.0.0", "c": "1.0.0"}


def test_a_device_that_had_nothing_goes_back_to_nothing(fleet: FleetInMemory) -> None:
    three(fleet)
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    fleet.rollouts.act(rollout, RolloutEvent.ROLLBACK, "rolled back")
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.ROLLED_BACK
    assert all(device.models == {} for device in fleet.devices.values())


def test_a_device_that_is_away_does_not_hold_the_roll_back_up_and_hears_of_it_when_it_returns(
    fleet: FleetInMemory,
) -> None:
    three(fleet)
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    fleet.lose("a")
    fleet.settle()
    fleet.rollouts.act(rollout, RolloutEvent.ROLLBACK, "rolled back")
    fleet.after_s(1)
    assert fleet.head(rollout).state is RolloutState.ROLLING_BACK
    fleet.after_s(601)
    assert fleet.head(rollout).state is RolloutState.ROLLED_BACK
    assert "1 away go back when they return" in str(fleet.head(rollout).why)
    fleet.connect("a")
    fleet.settle()
    assert fleet.devices["a"].models == {}


def test_a_success_is_withdrawn_when_a_device_falls_back_later(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.devices["c"].plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("1.0.0", waves=["1", "1", "1"])
    fleet.settle()
    assert [wave.state for wave in fleet.head(rollout).waves][:2] == [WaveState.SUCCEEDED] * 2
    fleet.devices["a"].regress("digits", "engine crashed 3 times within an hour")
    fleet.settle()
    head = fleet.head(rollout)
    assert head.state is RolloutState.PAUSED
    assert "wave 1" in str(head.why)
    assert "its success is withdrawn" in str(head.why)
    assert fleet.targets(rollout)["a"].state is S.COMMITTED


def test_a_soaking_wave_holds_the_next_back_and_is_watched(fleet: FleetInMemory) -> None:
    three(fleet)
    rollout = fleet.rollout("1.0.0", waves=[WavePolicy(size="1", soak_s=300), "100%"])
    fleet.settle()
    fleet.after_s(299)
    assert fleet.head(rollout).waves[0].state is WaveState.SOAKING
    assert fleet.states(rollout)["b"] == "waiting"
    fleet.after_s(1)
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED


def test_success_action_pause_waits_for_a_person(fleet: FleetInMemory) -> None:
    three(fleet)
    rollout = fleet.rollout("1.0.0", waves=[WavePolicy(size="1", success_action=SuccessAction.PAUSE), "100%"])
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.PAUSED
    assert "success_action is pause" in str(fleet.head(rollout).why)
    fleet.rollouts.act(rollout, RolloutEvent.RESUME, "resumed")
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED


def test_a_newer_rollout_takes_devices_over_that_the_older_has_not_reached(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.lose("a")
    older = fleet.rollout("1.0.0")
    fleet.settle()
    newer = fleet.rollout("2.0.0")
    fleet.connect("a")
    fleet.settle()
    assert fleet.states(older)["a"] == "superseded"
    assert fleet.head(older).state is RolloutState.SUCCEEDED
    assert fleet.states(newer) == dict.fromkeys("abc", "committed")
    assert [d.models["digits"].version for d in fleet.devices["a"].heard] == ["2.0.0"]


def test_a_device_is_in_one_deployment_at_a_time(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.devices["a"].plans["1.0.0"] = Plan.STOP_IN_TRIAL
    older = fleet.rollout("1.0.0")
    fleet.settle()
    newer = fleet.rollout("2.0.0")
    fleet.settle()
    assert (fleet.states(older)["a"], fleet.states(newer)["a"]) == ("trial", "waiting")
    fleet.devices["a"].finish("digits", S.COMMITTED)
    fleet.settle()
    assert fleet.states(newer) == dict.fromkeys("abc", "committed")


def test_a_device_that_serves_the_bundle_already_is_not_asked(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.rollout("1.0.0")
    fleet.settle()
    again = fleet.rollout("1.0.0")
    fleet.settle()
    assert fleet.targets(again)["a"].reason == "serves it already"
    assert fleet.head(again).state is RolloutState.SUCCEEDED
    assert len(fleet.devices["a"].heard) == 1


def test_devices_left_over_by_the_waves_are_not_touched(fleet: FleetInMemory) -> None:
    three(fleet)
    rollout = fleet.rollout("1.0.0", waves=["1"])
    fleet.settle()
    assert fleet.states(rollout) == {"a": "committed"}
    assert fleet.head(rollout).matched == 3


def test_named_devices_are_asked_in_their_order(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.devices["c"].plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("1.0.0", waves=["1", "100%"], selector=Selector(devices=["c", "a"]))
    fleet.settle()
    assert fleet.states(rollout) == {"c": "trial", "a": "waiting"}


def test_starting_for_no_device_is_refused_and_stays_a_draft(fleet: FleetInMemory) -> None:
    rollout = fleet.rollout("1.0.0", start=False)
    with pytest.raises(InvalidRollout, match="no enrolled device matches"):
        fleet.rollouts.act(rollout, RolloutEvent.START, "started")
    assert fleet.head(rollout).state is RolloutState.DRAFT


def test_an_unsigned_bundle_needs_consent(fleet: FleetInMemory) -> None:
    with pytest.raises(UnsignedBundle, match=r"unsigned bundle: digits 1\.0\.0"):
        fleet.rollout("1.0.0", policy=Policy())


def test_an_unknown_bundle_and_an_unknown_rollout_are_named(fleet: FleetInMemory) -> None:
    with pytest.raises(NotFound, match=r"no bundle 'digits 9\.9\.9'"):
        fleet.rollout("9.9.9")
    with pytest.raises(NotFound, match="no rollout 'nope'"):
        fleet.rollouts.get("nope")


@pytest.mark.parametrize(
    ("fields", "where"),
    [({"max_in_flight": 0}, "max_in_flight"), ({"tail_expires_s": 0.0}, "tail_expires_s"),
     ({"deadlines_s": {"x": 1.0}}, "deadlines_s"), ({"name": "x" * 201}, "name")],
)  # fmt: skip
def test_a_rollout_that_cannot_be_is_refused_by_field(
    fleet: FleetInMemory, fields: dict[str, object], where: str
) -> None:
    with pytest.raises(InvalidRollout) as refused:
        fleet.rollout("1.0.0", **fields)
    assert refused.value.where == where


def test_a_rollout_without_waves_is_refused(fleet: FleetInMemory) -> None:
    draft = fleet.head(fleet.rollout("1.0.0", start=False))
    with pytest.raises(InvalidRollout, match="waves: 0 given, 1 to 100 are allowed"):
        fleet.rollouts.create(msgspec.structs.replace(draft, waves=()))


def test_a_kill_between_commit_and_sending_is_made_good_at_the_next_start(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.wishes.publish = lambda devices: None  # type: ignore[method-assign]
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    assert fleet.states(rollout) == dict.fromkeys("abc", "queued")
    fleet.kill_server()
    fleet.start_server()
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED


def test_what_devices_say_while_the_server_is_dead_is_not_lost(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.devices["a"].plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    fleet.kill_server()
    fleet.devices["a"].finish("digits", S.COMMITTED)
    fleet.start_server()
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED


def test_a_broker_without_memory_costs_nothing(fleet: FleetInMemory) -> None:
    three(fleet)
    fleet.lose("c")
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    fleet.broker._retained.clear()
    fleet.broker.restart()
    for name in "abc":
        fleet.connect(name)
    fleet.settle()
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED
    assert fleet.devices["c"].heard[-1].models["digits"].digest == digest_of("1.0.0")


def test_a_list_has_every_rollout_that_is_open_and_the_newest_of_those_that_ended(fleet: FleetInMemory) -> None:
    fleet.device("a")
    draft = fleet.rollout("1.0.0", start=False)
    ended = []
    for version in ("1.0.0", "2.0.0", "1.0.0"):
        fleet.now_ms += 1000
        ended.append(fleet.rollout(version))
        fleet.settle()
    found = fleet.rollouts.all(limit=2)
    assert [(rollout.id, len(targets)) for rollout, targets in found] == [(ended[2], 1), (ended[1], 1), (draft, 0)]
    assert [rollout.id for rollout, _ in fleet.rollouts.all(limit=0)] == [draft]
    assert fleet.rollouts.states() == {"succeeded": 3, "draft": 1}
    for limit in (-1, 1001):
        with pytest.raises(InvalidRequest, match="limit"):
            fleet.rollouts.all(limit)


def test_a_rollout_is_read_once_for_each_change_and_an_ended_one_never(
    fleet: FleetInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(fleet)
    views: list[str] = []
    look = fleet.rollouts._view
    monkeypatch.setattr(fleet.rollouts, "_view", lambda work, head: views.append(head.id) or look(work, head))
    rollout = fleet.rollout("1.0.0", waves=["1", "100%"])
    while fleet.intake.take_batch(0):
        views.clear()
        changes = fleet.rollouts.tick()
        assert len(views) <= changes + 2
    assert fleet.head(rollout).state is RolloutState.SUCCEEDED
    views.clear()
    fleet.rollouts.tick()
    assert views == []
