"""When to try again: exponential growth, a cap, and a reset that has to be earned by running for a while."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Pure: the caller counts the failures and measures how long the last try lasted with its own clock.

    The reset needs ``stable_s`` of success, else something that fails right after each start is retried at full speed
    for ever. For full jitter multiply ``ceiling_s`` with a random number in [0, 1) ("Exponential Backoff And Jitter",
    AWS Architecture Blog, 2015).
    """

    first_s: float
    cap_s: float
    stable_s: float

    def failures_after(self, failures: int, lasted_s: float) -> int:
        """The count of consecutive failures after one more, which came after ``lasted_s`` of success."""
        return 1 if lasted_s >= self.stable_s else failures + 1

    def ceiling_s(self, failures: int) -> float:
        """The longest wait after ``failures`` (>= 1) consecutive failures."""
        return min(self.cap_s, self.first_s * 2.0 ** min(failures - 1, 62))
