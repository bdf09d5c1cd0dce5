"""Time that moves only when something waits for it."""

from __future__ import annotations

import threading


class FakeClock:
    """``wait`` takes no time: it moves the clock on, unless the event is set."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.elapsed_s = 0.0
        self.start_ms = now_ms

    def monotonic(self) -> float:
        return self.elapsed_s

    def now_ms(self) -> int:
        return self.start_ms + int(self.elapsed_s * 1000)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        if event.is_set():
            return True
        self.elapsed_s += max(0.0, timeout_s)
        return event.is_set()
