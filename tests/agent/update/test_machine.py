from __future__ import annotations

import pytest

from agent.update.machine import FORWARD, TABLE, Event, IllegalTransition, after
from edge_contracts.deployment import IN_FLIGHT, TERMINAL, DeploymentState

OUTCOMES = [
    Event.FAILED, Event.REJECTED, Event.REVERTED, Event.REVERT_FAILED, Event.TIMED_OUT, Event.SUPERSEDED,
    Event.CANCELED, Event.POWER_RETURNED, Event.POWER_LOST_AGAIN,
]  # fmt: skip


@pytest.mark.parametrize("state", sorted(IN_FLIGHT))
@pytest.mark.parametrize("event", OUTCOMES, ids=lambda event: event.value)
def test_every_state_in_flight_answers_every_outcome(state: DeploymentState, event: Event) -> None:
    reached = after(state, event)
    assert reached in TERMINAL or (event is Event.POWER_RETURNED and reached is state)


@pytest.mark.parametrize("state", sorted(TERMINAL))
@pytest.mark.parametrize("event", list(Event), ids=lambda event: event.value)
def test_a_terminal_state_never_changes(state: DeploymentState, event: Event) -> None:
    with pytest.raises(IllegalTransition):
        after(state, event)


def test_every_event_occurs_and_every_terminal_state_is_reached() -> None:
    assert {event for _, event in TABLE} == set(Event)
    assert set(TABLE.values()) >= TERMINAL


def test_each_state_in_flight_has_a_way_to_the_commit() -> None:
    onward = {state: {reached for (start, _), reached in FORWARD.items() if start is state} for state in IN_FLIGHT}
    for state in IN_FLIGHT:
        seen: set[DeploymentState] = set()
        frontier = {state}
        while frontier:
            seen |= frontier
            frontier = {reached for one in frontier for reached in onward.get(one, set())} - seen
        assert DeploymentState.COMMITTED in seen


def test_each_state_in_flight_has_a_deadline() -> None:
    from agent.config import UpdateConfig

    for state in IN_FLIGHT:
        assert getattr(UpdateConfig(), f"{state.value}_deadline_s") > 0
