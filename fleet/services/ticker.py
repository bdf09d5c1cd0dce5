"""The thread that moves rollouts on: when something was reported, and every ``every_s`` for what time brings."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fleet.errors import FleetError

_log = logging.getLogger(__name__)
EVERY_S = 1.0
GATHER_S = 0.05


class Ticker:
    """``tick`` is called by one thread, never twice at a time. A failure is told once, and once when it is over."""

    def __init__(self, tick: Callable[[], object], *, every_s: float = EVERY_S, gather_s: float = GATHER_S) -> None:
        self._tick = tick
        self._every_s = every_s
        self._gather_s = gather_s
        self._due = threading.Event()
        self._stopping = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="rollouts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something happened: tick soon."""
        self._due.set()

    def stop(self) -> None:
        self._stopping.set()
        self._due.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._due.wait(self._every_s)
            if self._stopping.wait(self._gather_s):
                return
            self._due.clear()
            try:
                self._tick()
            except FleetError as error:
                if not self._failing:
                    _log.warning("rollouts wait: %s", error)
                self._failing = True
            else:
                if self._failing:
                    _log.warning("rollouts go on: recovered")
                self._failing = False
