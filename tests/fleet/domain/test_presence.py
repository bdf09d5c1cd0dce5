from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from fleet.domain.device import Presence, after_birth, after_status


def play(events: list[tuple[str, int]]) -> Presence:
    presence = Presence()
    for at_ms, (kind, session) in enumerate(events):
        if kind == "birth":
            presence = after_birth(presence, session, at_ms, retained=False)
        else:
            presence = after_status(presence, kind == "alive", session, at_ms)
    return presence


def test_a_death_of_an_earlier_session_does_not_end_the_current_one() -> None:
    assert play([("birth", 1), ("birth", 2), ("death", 1)]).online


def test_a_death_that_arrives_before_its_birth_is_not_forgotten() -> None:
    assert not play([("birth", 1), ("death", 2), ("birth", 2)]).online


def test_a_dead_session_does_not_come_back_to_life_by_a_late_status() -> None:
    assert not play([("birth", 1), ("death", 1), ("alive", 1)]).online


def test_a_birth_that_is_delivered_again_after_the_death_does_not_revive_the_device() -> None:
    assert not play([("birth", 3), ("death", 3), ("birth", 3)]).online


def test_a_device_that_was_never_heard_is_offline() -> None:
    assert not Presence().online


def test_a_retained_birth_of_a_dead_session_is_no_sign_of_life() -> None:
    presence = after_birth(Presence(dead_session=3, last_seen_ms=5), 3, 99, retained=True)
    assert presence.last_seen_ms == 5


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.randoms())
def test_in_whatever_order_and_however_often_messages_come_the_newest_session_decides(
    alive: list[int], random: object
) -> None:
    newest = max(alive)
    deaths = [("death", session) for session in range(1, newest)]
    events = [("birth", session) for session in alive] + deaths + deaths
    random.shuffle(events)  # type: ignore[attr-defined]
    assert play(events).online
    events.append(("death", newest))
    random.shuffle(events)  # type: ignore[attr-defined]
    assert not play(events).online
