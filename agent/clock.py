"""Seam: time. Drivers: SystemClock here; tests bring their own."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """``monotonic`` for durations and deadlines (never goes back), ``now_ms`` for what others read (may be wrong)."""

    def monotonic(self) -> float:
        """Seconds from some fixed point."""

    def now_ms(self) -> int:
        """Unix time in milliseconds as this device believes it."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Sleep until ``event`` is set or the time is over; whether it is set."""


class SystemClock:
    """The operating system's."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(max(0.0, timeout_s))
