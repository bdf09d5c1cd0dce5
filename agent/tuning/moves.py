"""Which other settings are worth a trial in a situation, the most promising first. Pure.

These are rules of thumb: each only names a candidate. Whether it is better is measured (agent.tuning.tuner).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass

from agent.tuning.model_tuning import ARENA, BATCH_WINDOW, CPUS, PREPACKING, SPINNING, THREADS, ModelTuning
from agent.tuning.observation import Observation
from agent.tuning.situation import Situation

QUIET_SHARE = 0.3
"""A CPU of which others take less than this is worth staying on."""
FIRST_WINDOW_MS = 2.0


class Goal(str, enum.Enum):
    """What a change is for, and so how it is judged (agent.tuning.judgement).

    LATENCY: a trial must find it faster, then the live p95 must not be higher. MEMORY: the trial must find it hardly
    slower. QUEUE: no trial of single requests can tell; only the live p95 judges. BUDGET: it is not judged.
    """

    LATENCY = "latency"
    MEMORY = "memory"
    QUEUE = "queue"
    BUDGET = "budget"


@dataclass(frozen=True)
class Limits:
    """What holds for one model on this device now.

    share: threads of the device's budget that are this model's. cpus: those we may use. home: what selection chose.
    big_cpus: the strong cores, where cores differ. max_window_ms: 0 where requests are not run together.
    """

    model: str
    share: int
    budget_cpus: float
    cpus: frozenset[int]
    home: ModelTuning
    knobs: frozenset[str]
    big_cpus: frozenset[int] | None = None
    max_window_ms: float = 0.0
    reserve_mb: int = 64


@dataclass(frozen=True)
class Move:
    """A candidate, and why it comes to mind."""

    tuning: ModelTuning
    why: str
    goal: Goal = Goal.LATENCY


def moves(situation: Situation, seen: Observation, current: ModelTuning, limits: Limits) -> list[Move]:
    """Without the current settings, without two that are equal, none above the share, only of this model's knobs."""
    found: dict[ModelTuning, Move] = {}
    for move in _all(situation, seen, current, limits):
        tuning = _allowed(move.tuning, current, limits)
        if tuning != current:
            found.setdefault(tuning, Move(tuning, move.why, move.goal))
    return list(found.values())


def _all(situation: Situation, seen: Observation, current: ModelTuning, limits: Limits) -> Iterator[Move]:
    yield from _batching(situation, seen, current, limits)
    if situation.held_back:
        yield from _held_back(current, limits)
    if situation.hot:
        yield from _hot(seen, current, limits)
    if situation.taken_cpus > 0:
        yield from _contended(situation, seen, current, limits)
    else:
        yield from _free(current, limits)
    yield from _memory(situation, current, limits)


def _contended(situation: Situation, seen: Observation, current: ModelTuning, limits: Limits) -> Iterator[Move]:
    taken, count = situation.taken_cpus, len(limits.cpus)
    who = "another process holds" if taken <= 1 else "other processes hold"
    why = f"{who} {taken:.1f} of {count} CPUs"
    left = max(1, math.floor(min(limits.budget_cpus, count - taken) + 0.25))
    quiet = frozenset(cpu for cpu in limits.cpus if seen.busy_by_others.get(cpu, 0.0) < QUIET_SHARE)
    yield Move(current.but(threads=left, spinning=False, cpus=None), why)
    if seen.busy_by_others and quiet and len(quiet) < count:
        yield Move(current.but(threads=min(left, len(quiet)), spinning=False, cpus=quiet), why)
    yield Move(current.but(spinning=False), why)
    yield Move(current.but(threads=1, spinning=False, cpus=None), why)
    yield Move(_home(current, limits, spinning=False), why)
    yield Move(current.but(threads=limits.share, spinning=False, cpus=None), why)


def _free(current: ModelTuning, limits: Limits) -> Iterator[Move]:
    why = "the CPUs are free"
    yield Move(_home(current, limits, spinning=limits.home.spinning), why)
    yield Move(current.but(threads=limits.share, spinning=limits.home.spinning, cpus=None), why)
    yield Move(current.but(threads=limits.share, spinning=False, cpus=None), why)


def _held_back(current: ModelTuning, limits: Limits) -> Iterator[Move]:
    why = "the control group's quota holds it back"
    yield Move(current.but(threads=max(1, math.floor(limits.budget_cpus)), spinning=False), why)
    yield Move(current.but(threads=max(1, current.threads - 1), spinning=False), why)


def _hot(seen: Observation, current: ModelTuning, limits: Limits) -> Iterator[Move]:
    why = "the device is hot" + (f" ({seen.temp_c:.0f} °C)" if seen.temp_c is not None else "")
    if seen.throttled and seen.throttle_reasons:
        why = f"the device is slowed: {seen.throttle_reasons[0]}"
    if limits.big_cpus:
        threads = min(current.threads, len(limits.big_cpus))
        yield Move(current.but(threads=threads, spinning=False, cpus=limits.big_cpus), why)
    yield Move(current.but(threads=max(1, current.threads - 1), spinning=False), why)
    yield Move(current.but(threads=1, spinning=False), why)


def _memory(situation: Situation, current: ModelTuning, limits: Limits) -> Iterator[Move]:
    if situation.memory_short:
        why = f"less than {limits.reserve_mb} MiB of memory are free"
        yield Move(current.but(arena=False), why, Goal.MEMORY)
        yield Move(current.but(prepacking=False), why, Goal.MEMORY)
    elif (current.arena, current.prepacking) != (limits.home.arena, limits.home.prepacking):
        yield Move(current.but(arena=limits.home.arena, prepacking=limits.home.prepacking), "memory is free again")


def _batching(situation: Situation, seen: Observation, current: ModelTuning, limits: Limits) -> Iterator[Move]:
    window_ms = current.batch_window_ms or 0.0
    if situation.queueing:
        wider_ms = min(limits.max_window_ms, window_ms * 2 or FIRST_WINDOW_MS)
        why = f"{seen.load(limits.model).queued} requests wait"
        yield Move(current.but(batch_window_ms=wider_ms), why, Goal.QUEUE)
    elif situation.sparse:
        why = f"only {seen.arrival_per_s(limits.model):.1f} requests/s: waiting for more is in vain"
        yield Move(current.but(batch_window_ms=0.0), why, Goal.QUEUE)


def _home(current: ModelTuning, limits: Limits, *, spinning: bool | None) -> ModelTuning:
    """Selection's settings, with the caches and the batch window as they are: those have reasons of their own."""
    return current.but(threads=limits.home.threads, spinning=spinning, cpus=None)


def _allowed(tuning: ModelTuning, current: ModelTuning, limits: Limits) -> ModelTuning:
    """What of it this model can be given; the rest stays as it is."""
    kept: dict[str, object] = {"threads": min(tuning.threads, limits.share)}
    for knob, field in ((THREADS, "threads"), (SPINNING, "spinning"), (CPUS, "cpus"), (ARENA, "arena"),
                        (PREPACKING, "prepacking"), (BATCH_WINDOW, "batch_window_ms")):  # fmt: skip
        if knob not in limits.knobs:
            kept[field] = getattr(current, field)
    if BATCH_WINDOW in limits.knobs and limits.max_window_ms <= 0:
        kept["batch_window_ms"] = current.batch_window_ms
    return tuning.but(**kept)
