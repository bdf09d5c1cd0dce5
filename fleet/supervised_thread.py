"""A thread of the server that outlives every failure: told once, tried again with a backoff, seen in /healthz."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fleet.broker.backoff import Backoff
from fleet.errors import FleetError

_log = logging.getLogger(__name__)
BACKOFF = Backoff(first_s=0.5, cap_s=10.0, stable_s=0.0)


class SupervisedThread:
    """Calls ``step`` again and again until stop(). ``step`` waits by itself, and returns soon once ``stopping`` is set.

    ``what`` is the plural in "rollouts wait: ..." and "rollouts go on: recovered".
    """

    def __init__(self, name: str, what: str, step: Callable[[], object], *, backoff: Backoff = BACKOFF) -> None:
        self.stopping = threading.Event()
        self._what = what
        self._step = step
        self._backoff = backoff
        self._failures = 0
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def failure(self) -> str | None:
        """One line while the step keeps failing; None while all is well. Safe to show to anybody."""
        return self._failure

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the step in hand has ended; may be called without start()."""
        self.stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def turn(self) -> float:
        """One step; how many seconds to wait before the next one. Never raises."""
        try:
            self._step()
        except Exception as error:  # noqa: BLE001 - the supervisor: an unforeseen fault must not end it unseen
            return self._failed(error)
        if self._failure is not None:
            _log.warning("%s go on: recovered", self._what)
        self._failures, self._failure = 0, None
        return 0.0

    def _failed(self, error: Exception) -> float:
        foreseen = isinstance(error, (FleetError, OSError))
        line = f"{type(error).__name__}, the server's log says more"
        if foreseen:
            line = (error.strerror or "") if isinstance(error, OSError) else str(error)  # no path of ours
        if self._failure is None and foreseen:
            _log.warning("%s wait: %s", self._what, error)
        elif self._failure is None:
            _log.error("%s wait: %s", self._what, error, exc_info=error)
        self._failures += 1
        self._failure = f"{self._what} wait: {line}"
        return self._backoff.ceiling_s(self._failures)

    def _run(self) -> None:
        wait_s = 0.0
        while not self.stopping.wait(wait_s):
            wait_s = self.turn()
