"""Finds out before a broker starts whether it will get its port, since each broker says so in words of its own."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable

from fleet.errors import BrokerPortInUse, BrokerStartFailed

_TRY_EVERY_S = 0.1


def free_port(
    broker: str,
    host: str,
    port: int,
    *,
    grace_s: float,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """``port`` if it can be listened on, or one that can when it is 0.

    Waits up to ``grace_s`` for a port in use: after a crash of the server its old broker takes a moment to end.
    Raises BrokerPortInUse, or BrokerStartFailed when the host is not ours or the port may not be had.
    """
    deadline_s = monotonic() + grace_s
    while True:
        try:
            return _bind(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                reason = f"cannot listen on {host} port {port} ({error.strerror})"
                raise BrokerStartFailed(broker, reason, "choose another --host or --mqtt-port") from error
            if monotonic() >= deadline_s:
                raise BrokerPortInUse(broker, host, port) from error
        sleep(_TRY_EVERY_S)


def _bind(host: str, port: int) -> int:
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, place = places[0]
    with socket.socket(family, kind, protocol) as listener:
        # As the brokers do: a port whose old connections linger (TIME_WAIT) is free, one listened on is not.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        bound: int = listener.getsockname()[1]
        return bound
