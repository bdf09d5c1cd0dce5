"""Contenders made of trial processes: kept alive, or opened anew for each turn where memory is short."""

from __future__ import annotations

from collections.abc import Callable

from agent.errors import TrialError
from agent.selection.request import TrialLimits
from agent.selection.trial_process import TrialProcess, resident_mb
from agent.selection.trial_protocol import Phase


class LiveLane:
    """A trial that stays alive between its turns."""

    def __init__(self, name: str, trial: TrialProcess, limits: TrialLimits) -> None:
        self._name = name
        self._trial = trial
        self._limits = limits
        self.peak_rss_mb = 0.0

    @property
    def name(self) -> str:
        """The entrant's name."""
        return self._name

    def run(self, count: int, warm: int) -> list[float]:
        """Raises TrialError when it died, hung or failed."""
        reply = self._trial.run(count, warm, self._limits.run_s)
        self.peak_rss_mb = max(self.peak_rss_mb, reply.peak_rss_mb)
        return reply.times_us

    def resident_mb(self) -> int:
        """What it takes of the memory now."""
        return resident_mb(self._trial.pid) or 0

    def settle(self) -> None:
        """Wait until its threads sleep, 100 ms at most."""
        self._trial.wait_idle(0.1)

    def close(self) -> None:
        """End the process. May be called again."""
        self._trial.close(self._limits.close_s)


class ReopenedLane:
    """A trial that is opened for each turn and closed after it: one at a time fits where two do not."""

    def __init__(self, name: str, start: Callable[[], TrialProcess], limits: TrialLimits) -> None:
        self._name = name
        self._start = start
        self._limits = limits
        self.peak_rss_mb = 0.0

    @property
    def name(self) -> str:
        """The entrant's name."""
        return self._name

    def run(self, count: int, warm: int) -> list[float]:
        """Open, run, close. Raises TrialError."""
        trial = self._start()
        try:
            result = trial.wait_ready(self._limits.open_s)
            if result.phase is not Phase.READY:
                raise TrialError(result.reason)
            reply = trial.run(count, warm, self._limits.run_s)
            self.peak_rss_mb = max(self.peak_rss_mb, reply.peak_rss_mb)
            return reply.times_us
        finally:
            trial.close(self._limits.close_s)

    def resident_mb(self) -> int:
        """Between its turns nothing."""
        return 0

    def settle(self) -> None:
        """Nothing is left running."""

    def close(self) -> None:
        """Nothing is left running."""
