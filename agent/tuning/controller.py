"""The controller of one model: what to try next, if anything. Pure; rules propose and measurements decide.

    noticed(history, ...)   the situation as it is now: a new one opens everything for trial again
    propose(history, ...)   the next candidate, or why there is none

Around it the tuner measures the proposal against what serves, swaps, and watches (agent.tuning.judgement).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.tuning.controller_state import ControllerState, Pacing, wait_until_s
from agent.tuning.model_tuning import THREADS, ModelTuning
from agent.tuning.moves import Goal, Limits, Move, moves
from agent.tuning.observation import Observation, mean_arrival_per_s, total_sketch
from agent.tuning.situation import RECENT, situation_of

DRIFT_RATIO = 1.5


@dataclass(frozen=True)
class Proposal:
    """Try this. ``goal`` BUDGET: do it at once."""

    move: Move


@dataclass(frozen=True)
class Nothing:
    """Leave it as it is. ``is_final``: until the situation changes."""

    reason: str
    is_final: bool = False


Decision = Proposal | Nothing


def noticed(
    history: Sequence[Observation], current: ModelTuning, limits: Limits, memory: ControllerState, pacing: Pacing
) -> ControllerState:
    """The memory with the situation of the last observation. ``history`` is not empty, oldest first."""
    seen = undisturbed(history)
    window_ms = current.batch_window_ms or 0.0
    now = situation_of(seen, limits.model, limits.share, limits.reserve_mb, memory.situation, window_ms)
    if memory.situation is None:
        return replace(memory, situation=now, settled=now.is_calm and current == limits.home, began_s=history[-1].at_s)
    if now.key != memory.situation.key:
        return _new_episode(replace(memory, situation=now), seen)
    return _with_drift(memory, seen, limits, pacing) if memory.settled and memory.watch is None else memory


def propose(
    history: Sequence[Observation], current: ModelTuning, limits: Limits, memory: ControllerState,
    pacing: Pacing | None = None,
) -> Decision:  # fmt: skip
    """The next thing to do for one model. ``memory`` as ``noticed`` returned it for the same history."""
    pacing = pacing or Pacing()
    if current.threads > limits.share and THREADS in limits.knobs:
        return Proposal(_into_budget(current, limits))
    now_s, situation = history[-1].at_s, memory.situation
    if situation is None or memory.watch is not None:
        return Nothing("a change is being watched")
    recent = history[-RECENT:]
    if len(recent) < RECENT or any(observation.disturbed for observation in recent):
        return Nothing("too little has been seen since the last measurement")
    if memory.settled:
        return Nothing(f"settled ({situation.key})")
    if now_s < wait_until_s(memory, pacing):
        return Nothing(f"changed {now_s - (memory.last_change_s or 0.0):.0f} s ago")
    if mean_arrival_per_s(recent, limits.model) == 0 and not situation.memory_short:
        return Nothing("no requests")
    for move in _remembered_first(moves(situation, recent[-1], current, limits), memory):
        if not memory.is_blocked(move.tuning, now_s):
            return Proposal(move)
    return Nothing(f"nothing left to try ({situation.key})", is_final=True)


def undisturbed(history: Sequence[Observation]) -> list[Observation]:
    """Those in which we measured and swapped nothing."""
    return [observation for observation in history if not observation.disturbed]


def same_situation(history: Sequence[Observation], memory: ControllerState) -> list[Observation]:
    """Undisturbed observations of the present situation since the last change."""
    since_s = max(memory.began_s, memory.last_change_s if memory.last_change_s is not None else memory.began_s)
    return [observation for observation in undisturbed(history) if observation.at_s - observation.span_s >= since_s]


def _into_budget(current: ModelTuning, limits: Limits) -> Move:
    why = f"{limits.share} of the device's {limits.budget_cpus:g} CPUs {'is' if limits.share == 1 else 'are'} its share"
    return Move(current.but(threads=limits.share), why, Goal.BUDGET)


def _new_episode(memory: ControllerState, seen: Sequence[Observation]) -> ControllerState:
    """It began with the first of the observations that told it: all but the first of the recent ones surely did."""
    began_s = seen[-(RECENT - 1)].at_s - seen[-(RECENT - 1)].span_s if len(seen) >= RECENT else seen[-1].at_s
    return replace(memory, episode=memory.episode + 1, began_s=began_s, settled=False, reference_p95_ms=None)


def _with_drift(
    memory: ControllerState, seen: Sequence[Observation], limits: Limits, pacing: Pacing
) -> ControllerState:
    """A settled model whose p95 has grown by half without a cause that we see is worth another look."""
    recent = same_situation(seen, memory)[-RECENT:]
    sketch = total_sketch(recent, limits.model)
    p95_us = sketch.quantile_us(0.95)
    if len(recent) < RECENT or sketch.count < pacing.min_requests or p95_us is None:
        return memory
    p95_ms = p95_us / 1000
    if memory.reference_p95_ms is None or p95_ms < memory.reference_p95_ms:
        return replace(memory, reference_p95_ms=p95_ms)
    drifted = all((o.load(limits.model).quantile_ms(0.95) or 0) > DRIFT_RATIO * memory.reference_p95_ms for o in recent)
    return _new_episode(memory, seen) if drifted else memory


def _remembered_first(found: list[Move], memory: ControllerState) -> list[Move]:
    """What was kept in this situation before is measured first."""
    good = memory.good.get(memory.key)
    return sorted(found, key=lambda move: move.tuning != good)
