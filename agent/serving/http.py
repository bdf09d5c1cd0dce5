"""HTTP/1.1 for the data plane: what all connections share. The protocol itself is agent.serving.http_connection."""

from __future__ import annotations

import msgspec

from agent.serving.body import MemoryBudget
from agent.serving.exchange import Application
from agent.serving.http_connection import HttpConnection

RECEIVE_BYTES = 128 * 1024


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``request_s``: for a whole request to arrive, plus a second for each ``min_bytes_per_s`` received."""

    max_header_bytes: int = 16 * 1024
    max_body_bytes: int = 64 * 1024 * 1024
    max_connections: int = 1000
    idle_s: float = 75.0
    request_s: float = 20.0
    min_bytes_per_s: int = 4096


class HttpService:
    """All connections of a server: what they share. ``sweep`` is to be called about once a second."""

    def __init__(self, application: Application, limits: HttpLimits, budget: MemoryBudget) -> None:
        self.application = application
        self.limits = limits
        self.budget = budget
        self.connections: set[HttpConnection] = set()
        self.is_draining = False
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))

    def connection(self) -> HttpConnection:
        """The protocol factory."""
        return HttpConnection(self)

    def sweep(self, now_s: float) -> None:
        """Close what has been idle, slow or stuck for too long. ``now_s``: the loop's time."""
        for connection in list(self.connections):
            connection.check_time(now_s)

    def drain(self) -> None:
        """Close idle connections now and the others after their answers."""
        self.is_draining = True
        for connection in list(self.connections):
            connection.close_if_idle()
