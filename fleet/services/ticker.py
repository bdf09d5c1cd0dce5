"""The thread that does what is due: when something happened, and every ``every_s`` for what time brings."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fleet.supervised_thread import SupervisedThread

EVERY_S = 1.0
GATHER_S = 0.05


class Ticker:
    """``tick`` is called by one thread, never twice at a time. ``what``: what waits when it fails, a plural."""

    def __init__(
        self,
        tick: Callable[[], object],
        *,
        what: str = "rollouts",
        every_s: float = EVERY_S,
        gather_s: float = GATHER_S,
    ) -> None:
        self._tick = tick
        self._every_s = every_s
        self._gather_s = gather_s
        self._due = threading.Event()
        self.thread = SupervisedThread(what.replace(" ", "-"), what, self._step)

    @property
    def failure(self) -> str | None:
        """One line while the tick keeps failing."""
        return self.thread.failure

    def start(self) -> None:
        self.thread.start()

    def wake(self) -> None:
        """Something happened: tick soon."""
        self._due.set()

    def stop(self) -> None:
        self.thread.stopping.set()
        self._due.set()
        self.thread.stop()

    def _step(self) -> None:
        self._due.wait(self._every_s)
        if self.thread.stopping.wait(self._gather_s):
            return
        self._due.clear()
        self._tick()
