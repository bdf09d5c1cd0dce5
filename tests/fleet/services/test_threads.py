"""The three services that run in threads of their own, a step at a time."""

from __future__ import annotations

import pytest

from fleet.broker.broker import DeviceAccount
from fleet.services.accounts import AccountKeeper
from fleet.services.link_watch import LinkWatch
from fleet.services.ticker import Ticker
from fleet.store.memory import MemoryStore


class Accounts:
    """A broker that fails as often as told."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.loads = 0

    def set_accounts(self, accounts: list[DeviceAccount], /) -> None:
        if self.failures:
            self.failures -= 1
            raise AssertionError("a bug of ours")
        self.loads += 1


def test_a_tick_with_an_unforeseen_fault_is_tried_again() -> None:
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 1:
            raise KeyError("a bug of ours")

    ticker = Ticker(tick, every_s=0.0, gather_s=0.0)
    assert ticker.thread.turn() > 0
    assert ticker.failure is not None
    assert ticker.thread.turn() == 0
    assert (ticker.failure, len(ticks)) == (None, 2)


def test_accounts_that_could_not_be_loaded_are_said_to_be_late_and_loaded_at_the_next_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Accounts(failures=1)
    keeper = AccountKeeper(MemoryStore(), broker, gather_s=0.0)
    assert not keeper.changed(wait_s=0.0)
    assert "device accounts are not in force after 0 s" in caplog.text
    assert keeper.thread.turn() > 0
    assert keeper.thread.turn() == 0
    assert (broker.loads, keeper._loaded) == (1, 1)


def test_accounts_are_not_said_to_be_in_force_when_the_server_stops() -> None:
    keeper = AccountKeeper(MemoryStore(), Accounts(failures=0))
    keeper.stop()
    assert not keeper.changed(wait_s=5.0)


def test_wishes_that_could_not_be_sent_are_sent_at_the_next_turn_and_the_return_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    connected, failures, sent = True, [ZeroDivisionError()], []

    def send() -> int:
        if failures:
            raise failures.pop()
        sent.append(1)
        return 3

    watch = LinkWatch(lambda: connected, send, watch_s=0.0)
    assert watch.thread.turn() > 0
    for connected in (True, True, False, True):  # noqa: B007 - the watch reads it
        assert watch.thread.turn() == 0
    assert len(sent) == 2
    assert [r.message for r in caplog.records if "broker is back" in r.message] == [
        "the MQTT broker is back: recovered; 3 devices are sent their wish again"
    ]
