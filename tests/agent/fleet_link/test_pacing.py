from __future__ import annotations

import random

import pytest

from agent.config import LinkConfig
from agent.fleet_link.pacing import Ended, Pacing

CONFIG = LinkConfig()
UNREACHABLE = Ended(0.1, accepted=False, by_broker=False)
STOLEN = Ended(2.0, accepted=True, by_broker=True)
RACED = Ended(0.1, accepted=False, by_broker=True)
STABLE = Ended(CONFIG.stable_s, accepted=True, by_broker=True)


@pytest.fixture
def pacing() -> Pacing:
    return Pacing(CONFIG, random.Random(7))


def test_waits_are_spread_below_a_ceiling_that_doubles(pacing: Pacing) -> None:
    ceilings = [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]
    waits = [pacing.wait_s(UNREACHABLE) for _ in ceilings]
    assert all(0 <= wait <= ceiling for wait, ceiling in zip(waits, ceilings, strict=True))
    assert len({round(wait, 6) for wait in waits}) == len(waits)


def test_only_a_stable_connection_resets_the_ceiling(pacing: Pacing) -> None:
    for _ in range(8):
        pacing.wait_s(UNREACHABLE)
    assert max(pacing.wait_s(Ended(5.0, accepted=True, by_broker=False)) for _ in range(20)) > 2
    assert pacing.wait_s(STABLE) <= 1


def test_connections_taken_away_one_after_another_are_a_takeover_told_once(pacing: Pacing) -> None:
    waits = [pacing.wait_s(STOLEN) for _ in range(CONFIG.takeover_sessions)]
    assert waits[-1] >= CONFIG.takeover_wait_s / 2
    assert pacing.news_of_takeover()
    pacing.wait_s(STOLEN)
    assert not pacing.news_of_takeover()


def test_losing_the_race_for_the_connection_does_not_hide_a_takeover(pacing: Pacing) -> None:
    for _ in range(CONFIG.takeover_sessions):
        pacing.wait_s(STOLEN)
        pacing.wait_s(RACED)
    assert pacing.is_taken_over


@pytest.mark.parametrize("between", [UNREACHABLE, Ended(30.0, accepted=True, by_broker=False)])
def test_a_broker_that_restarts_or_a_bad_network_is_no_takeover(pacing: Pacing, between: Ended) -> None:
    for _ in range(20):
        pacing.wait_s(STOLEN)
        pacing.wait_s(between)
    assert not pacing.is_taken_over


def test_the_reconnects_of_two_hundred_devices_are_spread(pacing: Pacing) -> None:
    """The broker is away for a minute: no second sees over a tenth of them come back."""
    rng = random.Random(1)
    seconds: dict[int, int] = {}
    for _ in range(200):
        one, now_s = Pacing(CONFIG, rng), 0.0
        while now_s < 60:
            now_s += one.wait_s(UNREACHABLE)
        seconds[int(now_s)] = seconds.get(int(now_s), 0) + 1
    assert max(seconds.values()) <= 20
