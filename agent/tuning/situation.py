"""In what situation a model serves, told from the last observations, slow to change its mind. Pure.

Every feature has two thresholds, one to enter and one to leave, and takes RECENT observations that agree.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent.tuning.observation import Observation

RECENT = 3
TAKEN_STEP = 0.5
TAKEN_SLACK = 0.4
"""Others' share of our CPUs is told in halves of a CPU; it must move by more than the slack to be told anew."""
HELD_BACK = 0.02
HOT_MARGIN_C, COOL_MARGIN_C = 2.0, 8.0
QUEUED = 2
FEW_IN_WINDOW, ENOUGH_IN_WINDOW = 0.5, 1.0
_FLAGS = ("held_back", "hot", "memory_short", "queueing", "sparse")


@dataclass(frozen=True)
class Situation:
    """taken_cpus: what others take of our CPUs. share: threads of the device's budget that are this model's."""

    taken_cpus: float = 0.0
    share: int = 1
    held_back: bool = False
    hot: bool = False
    memory_short: bool = False
    queueing: bool = False
    sparse: bool = False
    """Requests come so rarely that waiting for a batch is in vain."""

    @property
    def key(self) -> str:
        """What a trial's verdict holds for."""
        flags = [name for name in _FLAGS if getattr(self, name)]
        return " ".join([f"taken {self.taken_cpus:g}", f"share {self.share}", *flags])

    @property
    def is_calm(self) -> bool:
        """Nothing stands in the way."""
        return self.taken_cpus == 0 and not any(getattr(self, name) for name in _FLAGS)


def situation_of(
    history: Sequence[Observation], model: str, share: int, reserve_mb: int, before: Situation | None,
    window_ms: float = 0.0,
) -> Situation:  # fmt: skip
    """``before``: as it was told last. With fewer than RECENT observations nothing but the share changes.

    ``window_ms``: the batch window in effect.
    """
    earlier = before or Situation(share=share)
    recent = history[-RECENT:]
    if len(recent) < RECENT:
        return replace(earlier, share=share)
    return Situation(
        taken_cpus=_taken(recent, earlier.taken_cpus),
        share=share,
        held_back=_told(
            recent, earlier.held_back, lambda o: (o.held_back or 0) >= HELD_BACK, lambda o: not o.held_back
        ),
        hot=_told(recent, earlier.hot, _is_hot, _is_cool),
        memory_short=_told(
            recent, earlier.memory_short, lambda o: o.memory_available_mb is not None
            and o.memory_available_mb < reserve_mb, lambda o: (o.memory_available_mb or 0) > 2 * reserve_mb,
        ),
        queueing=_told(
            recent, earlier.queueing, lambda o: o.load(model).queued >= QUEUED, lambda o: o.load(model).queued < QUEUED
        ),
        sparse=_told(
            recent, earlier.sparse,
            lambda o: 0 < o.arrival_per_s(model) * window_ms / 1000 < FEW_IN_WINDOW,
            lambda o: not 0 < o.arrival_per_s(model) * window_ms / 1000 < ENOUGH_IN_WINDOW,
        ),
    )  # fmt: skip


def taken_cpus(seen: Observation) -> float | None:
    """CPUs that others take of ours; where their time is not known, a guess from who waits or runs."""
    if seen.other_cpus is not None:
        return seen.other_cpus
    pressure = seen.pressure_pct if seen.pressure_pct is not None else seen.group_pressure_pct
    if pressure is not None:
        return pressure / 100
    return max(0.0, float(seen.running - 2)) if seen.running is not None else None


def _taken(recent: Sequence[Observation], before: float) -> float:
    known = [value for value in map(taken_cpus, recent) if value is not None]
    if len(known) < len(recent):
        return before
    middle = statistics.median(known)
    return before if abs(middle - before) <= TAKEN_SLACK else round(middle / TAKEN_STEP) * TAKEN_STEP


def _told(
    recent: Sequence[Observation], before: bool, enters: Callable[[Observation], bool],
    leaves: Callable[[Observation], bool],
) -> bool:  # fmt: skip
    return not all(map(leaves, recent)) if before else all(map(enters, recent))


def _is_hot(seen: Observation) -> bool:
    return bool(seen.throttled) or (seen.temp_margin_c is not None and seen.temp_margin_c <= HOT_MARGIN_C)


def _is_cool(seen: Observation) -> bool:
    return not seen.throttled and (seen.temp_margin_c is None or seen.temp_margin_c >= COOL_MARGIN_C)
