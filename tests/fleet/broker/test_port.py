from __future__ import annotations

import socket

import pytest

from fleet.broker.port import free_port
from fleet.errors import BrokerPortInUse, BrokerStartFailed


class Time:
    """A clock that moves when someone sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.on_sleep: list[socket.socket] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s
        if self.now_s > 1.0:
            for listener in self.on_sleep:
                listener.close()


def test_port_0_becomes_one_that_can_be_listened_on() -> None:
    port = free_port("nats", "127.0.0.1", 0, grace_s=0.0)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        assert port > 1024


def test_a_port_in_use_is_waited_for_and_then_named() -> None:
    time = Time()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(BrokerPortInUse, match=rf"port {port} .*--mqtt-port"):
            free_port("nats", "127.0.0.1", port, grace_s=2.0, monotonic=time.monotonic, sleep=time.sleep)
    assert 2.0 <= time.now_s < 2.5


def test_a_port_that_an_old_broker_leaves_in_time_is_taken() -> None:
    time, listener = Time(), socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port = listener.getsockname()[1]
    time.on_sleep.append(listener)
    assert free_port("nats", "127.0.0.1", port, grace_s=2.0, monotonic=time.monotonic, sleep=time.sleep) == port


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_a_host_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(BrokerStartFailed, match=host):
        free_port("nats", host, 0, grace_s=0.0)
