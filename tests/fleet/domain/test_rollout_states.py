from __future__ import annotations

import itertools

import pytest

from fleet.domain.rollout import ACTIVE, FINAL, VERBS, RolloutEvent, RolloutState, after
from fleet.errors import NotAllowedNow
from fleet.http.rollout_views import verbs


def test_what_has_no_place_in_a_state_is_refused_with_verb_and_state() -> None:
    with pytest.raises(NotAllowedNow, match="cannot pause rollout r1: it is draft"):
        after(RolloutState.DRAFT, RolloutEvent.PAUSE, "rollout r1")


def test_only_a_roll_back_leaves_a_final_state() -> None:
    for state, event in itertools.product(FINAL, RolloutEvent):
        if event is not RolloutEvent.ROLLBACK:
            with pytest.raises(NotAllowedNow):
                after(state, event)


def test_every_state_but_the_final_ones_can_be_aborted() -> None:
    assert all("abort" in verbs(state) for state in RolloutState if state not in FINAL)


def test_the_verbs_that_are_offered_are_those_that_work() -> None:
    for state, verb in itertools.product(RolloutState, VERBS):
        try:
            after(state, VERBS[verb])
        except NotAllowedNow:
            assert verb not in verbs(state)
        else:
            assert verb in verbs(state)


def test_every_state_can_be_reached_from_a_draft() -> None:
    found, border = {RolloutState.DRAFT}, [RolloutState.DRAFT]
    while border:
        state = border.pop()
        for event in RolloutEvent:
            try:
                following = after(state, event)
            except NotAllowedNow:
                continue
            if following not in found:
                found.add(following)
                border.append(following)
    assert found == set(RolloutState)
    assert found >= ACTIVE
