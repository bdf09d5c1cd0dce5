from __future__ import annotations

import msgspec
import pytest

from edge_contracts.deployment import DeploymentState as S
from fleet.domain.rollout import RolloutEvent, RolloutState
from fleet.domain.wave import WaveState
from fleet.http.rollout_views import rollout_view
from tests.fleet.fleet_in_memory import FleetInMemory


@pytest.fixture
def fleet() -> FleetInMemory:
    made = FleetInMemory()
    made.bundle("digits", "1.0.0")
    for name in ("a", "b"):
        made.device(name)
    return made


def test_only_late_devices_are_awaited_when_every_other_has_ended(fleet: FleetInMemory) -> None:
    fleet.lose("b")
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    assert not rollout_view(*fleet.rollouts.get(rollout)).awaiting_late
    fleet.after_s(601)
    view = rollout_view(*fleet.rollouts.get(rollout))
    assert (view.state, view.awaiting_late) == ("running", True)
    assert [(wave.tail, wave.counts.stragglers, wave.counts.targeted) for wave in view.waves] == [
        (False, 1, 1), (True, 0, 1)
    ]  # fmt: skip


def test_a_rollout_that_is_just_about_to_end_does_not_await_late_devices(fleet: FleetInMemory) -> None:
    rollout = fleet.rollout("1.0.0")
    fleet.settle()
    head, targets = fleet.rollouts.get(rollout)
    assert head.waves[0].state is WaveState.SUCCEEDED
    between = msgspec.structs.replace(head, state=RolloutState.RUNNING)
    assert all(target.state is S.COMMITTED for target in targets)
    assert not rollout_view(between, targets).awaiting_late


def test_a_rollout_that_is_over_leaves_no_wave_running(fleet: FleetInMemory) -> None:
    fleet.lose("b")
    rollout = fleet.rollout("1.0.0", waves=["100%"])
    fleet.settle()
    fleet.rollouts.act(rollout, RolloutEvent.ABORT, "enough")
    assert [wave.state for wave in rollout_view(*fleet.rollouts.get(rollout)).waves] == ["aborted"]
    fleet.rollouts.act(rollout, RolloutEvent.ROLLBACK, "all of it")
    fleet.settle()
    view = rollout_view(*fleet.rollouts.get(rollout))
    assert (view.state, view.waves[0].state) == ("rolled_back", "rolled_back")


def test_waves_that_an_abort_leaves_are_told_as_not_begun(fleet: FleetInMemory) -> None:
    fleet.lose("a")
    rollout = fleet.rollout("1.0.0", waves=["1", "100%"])
    fleet.settle()
    fleet.rollouts.act(rollout, RolloutEvent.ABORT, "enough")
    assert [wave.state for wave in rollout_view(*fleet.rollouts.get(rollout)).waves] == ["aborted", "not_begun"]
