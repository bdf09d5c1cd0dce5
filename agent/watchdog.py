"""systemd's watchdog, fed by the loop whose hanging would leave the device without a voice.

Source: sd_watchdog_enabled(3). WATCHDOG_USEC is the service's limit in microseconds, WATCHDOG_PID the process that has
to keep it (absent: any). Pings go out at half the limit, and only while the loop comes around.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping

from agent.clock import Clock
from agent.service_notice import notify


def ping_interval_s(environ: Mapping[str, str], pid: int) -> float | None:
    """Half of the service's limit; None where nobody watches this process."""
    limit_us, watched = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not limit_us.isdecimal() or int(limit_us) == 0 or watched not in ("", str(pid)):
        return None
    return int(limit_us) / 2e6


class WatchedWait:
    """A wait that pings while it lasts. For one thread."""

    def __init__(self, clock: Clock, environ: Mapping[str, str], pid: int | None = None) -> None:
        self._clock = clock
        self._interval_s = ping_interval_s(environ, os.getpid() if pid is None else pid)
        self._ping: Callable[[], None] = lambda: notify(environ, "WATCHDOG=1")

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """As ``Clock.wait``: whether ``event`` is set, after ``timeout_s`` at the latest."""
        if self._interval_s is None:
            return self._clock.wait(event, timeout_s)
        deadline = self._clock.monotonic() + timeout_s
        while True:
            self._ping()
            left_s = deadline - self._clock.monotonic()
            if self._clock.wait(event, max(0.0, min(left_s, self._interval_s))):
                return True
            if left_s <= self._interval_s:
                return False
