"""What is forgotten after a while, so that the database does not grow for ever."""

from __future__ import annotations

from fleet.domain.rollout import FINAL, Rollout
from fleet.services.clock import NowMs
from fleet.store.unit_of_work import Scalar, Store, UnitOfWork

LATENCY_DAYS = 7
EVENT_DAYS = 90
ROLLOUT_DAYS = 90
EVERY_S = 3600.0
_DAY_MS = 86_400_000


class Retention:
    """``sweep`` may be called as often as one likes; it does its work every ``every_s``. Ages are by our own clock.

    An ended rollout goes ``rollout_days`` after its end, with its targets, unless a device's wish still comes from it.
    """

    def __init__(
        self, store: Store, now_ms: NowMs, *, rollout_days: float = ROLLOUT_DAYS, every_s: float = EVERY_S
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._rollout_days = rollout_days
        self._every_s = every_s
        self._swept_ms: int | None = None

    def sweep(self) -> int:
        """How many latencies, events and rollouts went."""
        now_ms = self._now_ms()
        if self._swept_ms is not None and now_ms - self._swept_ms < 1000 * self._every_s:
            return 0
        with self._store.write() as work:
            gone = work.latencies.delete({}, below={"minute_ms": now_ms - LATENCY_DAYS * _DAY_MS})
            gone += work.events.delete({}, below={"received_ms": now_ms - EVENT_DAYS * _DAY_MS})
            work.commit()
        gone += self._forget_rollouts(now_ms - int(self._rollout_days * _DAY_MS))
        self._swept_ms = now_ms
        return gone

    def _forget_rollouts(self, before_ms: int) -> int:
        """Each in a transaction of its own, so that devices' messages need not wait for long."""
        with self._store.read() as work:
            wished = set(work.wishes.count("deployment"))
            old = [r.id for r in work.rollouts.find({"state": FINAL}) if _ended_before(r, before_ms)]
            unwished = [rollout for rollout in old if not _wishes(work, rollout, wished)]
        return sum(self._forget(rollout, before_ms) for rollout in unwished)

    def _forget(self, rollout: str, before_ms: int) -> bool:
        """Looks again: meanwhile an operator may have had it rolled back."""
        with self._store.write() as work:
            head = work.rollouts.get(rollout, lock=True)
            if head is None or head.state not in FINAL or not _ended_before(head, before_ms):
                return False
            work.targets.delete({"rollout": rollout})
            work.rollouts.delete({"id": rollout})
            work.commit()
        return True


def _ended_before(rollout: Rollout, before_ms: int) -> bool:
    return rollout.finished_ms is not None and rollout.finished_ms < before_ms


def _wishes(work: UnitOfWork, rollout: str, wished: set[Scalar]) -> bool:
    """Whether a wish comes from one of the rollout's deployments, or from taking one back."""
    deployments = work.targets.count("deployment", {"rollout": rollout})
    return any(name in wished or f"{name}-back" in wished for name in deployments)
