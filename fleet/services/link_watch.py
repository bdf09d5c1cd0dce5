"""Notices that the link to the broker has come up again, so that what got lost meanwhile is sent again."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fleet.supervised_thread import SupervisedThread

_log = logging.getLogger(__name__)
WATCH_S = 0.2


class LinkWatch:
    """Calls ``on_connected`` (how many devices were sent something) each time the link has come up."""

    def __init__(
        self, is_connected: Callable[[], bool], on_connected: Callable[[], int], *, watch_s: float = WATCH_S
    ) -> None:
        self._is_connected = is_connected
        self._on_connected = on_connected
        self._watch_s = watch_s
        self._served = False
        self._first = True
        self.thread = SupervisedThread("link-watch", "wishes", self._step)

    @property
    def failure(self) -> str | None:
        """One line while the wishes cannot be sent again."""
        return self.thread.failure

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.thread.stop()

    def _step(self) -> None:
        if self.thread.stopping.wait(self._watch_s):
            return
        connected = self._is_connected()
        if connected and not self._served:
            sent = self._on_connected()
            if not self._first:
                _log.warning("the MQTT broker is back: recovered; %d devices are sent their wish again", sent)
            self._first = False
        self._served = connected
