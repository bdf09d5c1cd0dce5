"""The watchdog's pings, against a socket that stands for systemd's."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.watchdog import WatchedWait, ping_interval_s

PID = 4242


class JumpingClock:
    """Waiting moves it on and takes no time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        if not event.is_set():
            self.now_s += timeout_s
        return event.is_set()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.setblocking(False)
        yield channel


def pings(channel: socket.socket) -> list[bytes]:
    heard = []
    while True:
        try:
            heard.append(channel.recv(100))
        except BlockingIOError:
            return heard


def test_pings_go_out_at_half_the_limit_for_as_long_as_the_wait_lasts(systemd: socket.socket) -> None:
    clock = JumpingClock()
    environ = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(PID)}
    assert not WatchedWait(clock, environ, PID).wait(threading.Event(), 25.0)
    assert clock.waits == [10.0, 10.0, 5.0]
    assert pings(systemd) == [b"WATCHDOG=1"] * 3


def test_an_event_ends_the_wait(systemd: socket.socket) -> None:
    event = threading.Event()
    event.set()
    environ = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "20000000"}
    clock = JumpingClock()
    assert WatchedWait(clock, environ, PID).wait(event, 25.0)
    assert clock.now_s == 0.0


def test_without_a_watchdog_the_wait_is_one_wait_and_says_nothing(systemd: socket.socket) -> None:
    clock = JumpingClock()
    assert not WatchedWait(clock, {"NOTIFY_SOCKET": systemd.getsockname()}, PID).wait(threading.Event(), 25.0)
    assert clock.waits == [25.0]
    assert pings(systemd) == []


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": ""},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "-5"},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
    ],
)
def test_what_is_no_watchdog_for_this_process_is_none(environ: dict[str, str]) -> None:
    assert ping_interval_s(environ, PID) is None


def test_the_limit_is_in_microseconds() -> None:
    assert ping_interval_s({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, os.getpid()) == 30.0
