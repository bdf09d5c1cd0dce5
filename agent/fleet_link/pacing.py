"""When to connect again, and when to suspect that a second device uses this one's identity. Pure but for randomness.

Full jitter (a uniform wait below a ceiling that doubles), reset only by a connection that held for a stable time. A
broker throws out the older of two clients with one id, so two clones take each other's connection in turn for ever:
several accepted connections in a row, each ended by the broker early, with no failed attempt between, look like that.
Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (2015); field case C24.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from agent.config import LinkConfig


@dataclass(frozen=True)
class Ended:
    """How an attempt ended. ``accepted``: the broker had let us in. ``by_broker``: it closed the connection,
    be it before or after it let us in; no time-out, no refusal.
    """

    lasted_s: float
    accepted: bool
    by_broker: bool


class Pacing:
    """One per link."""

    def __init__(self, config: LinkConfig, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._failures = 0
        self._stolen = 0
        self._told = False

    def wait_s(self, ended: Ended) -> float:
        """Seconds to wait before the next attempt."""
        if ended.accepted and ended.lasted_s >= self._config.stable_s:
            self._failures, self._stolen, self._told = 0, 0, False
        elif not ended.by_broker:
            self._stolen = 0
        elif ended.accepted:
            self._stolen += 1
        self._failures += 1
        if self.is_taken_over:
            return self._rng.uniform(0.5, 1.5) * self._config.takeover_wait_s
        ceiling_s = self._config.first_retry_s * 2.0 ** min(self._failures - 1, 30)
        return self._rng.uniform(0, min(self._config.longest_retry_s, ceiling_s))

    @property
    def is_taken_over(self) -> bool:
        """Enough connections in a row were taken away."""
        return self._stolen >= self._config.takeover_sessions

    def news_of_takeover(self) -> bool:
        """True once when the suspicion arises."""
        if not self.is_taken_over or self._told:
            return False
        self._told = True
        return True
