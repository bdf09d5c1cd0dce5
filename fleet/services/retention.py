"""What is forgotten after a while, so that the database does not grow for ever."""

from __future__ import annotations

from fleet.services.clock import NowMs
from fleet.store.unit_of_work import Store

LATENCY_DAYS = 7
EVENT_DAYS = 90
EVERY_S = 3600.0
_DAY_MS = 86_400_000


class Retention:
    """``sweep`` may be called as often as one likes; it does its work every ``every_s``."""

    def __init__(self, store: Store, now_ms: NowMs, *, every_s: float = EVERY_S) -> None:
        self._store = store
        self._now_ms = now_ms
        self._every_s = every_s
        self._swept_ms: int | None = None

    def sweep(self) -> int:
        """How many rows went."""
        now_ms = self._now_ms()
        if self._swept_ms is not None and now_ms - self._swept_ms < 1000 * self._every_s:
            return 0
        with self._store.write() as work:
            gone = work.latencies.delete({}, below={"minute_ms": now_ms - LATENCY_DAYS * _DAY_MS})
            gone += work.events.delete({}, below={"at_ms": now_ms - EVENT_DAYS * _DAY_MS})
            work.commit()
        self._swept_ms = now_ms
        return gone
