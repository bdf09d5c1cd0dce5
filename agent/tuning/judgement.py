"""Two verdicts on a change: the trial's, before it is made, and that of the live latency, after it. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from agent.tuning.controller import same_situation
from agent.tuning.controller_state import ControllerState, Pacing, Watch
from agent.tuning.moves import Goal
from agent.tuning.observation import Observation, mean_arrival_per_s, total_sketch

LEAST_GAIN = 0.98
ALLOWED_COST = 1.10
ALLOWED_LIVE_RATIO = {Goal.LATENCY: 1.0, Goal.QUEUE: 1.0, Goal.MEMORY: ALLOWED_COST}
OTHER_LOAD = 2.0
"""Latencies under half or twice the arrival rate do not compare."""


@dataclass(frozen=True)
class TrialVerdict:
    """The proposed tuning against the one that serves, interleaved, on this device as loaded as it is.

    ratio: p90 new / old with one-sided 95 % bounds. *_mb: peak resident memory. ``refusal``: why it did not come to
    that (it cannot run, died, answered wrongly, no memory for a trial); the figures mean nothing then.
    """

    ratio: float = 1.0
    low: float = 0.0
    high: float = float("inf")
    new_ms: float = 0.0
    old_ms: float = 0.0
    new_mb: float = 0.0
    old_mb: float = 0.0
    refusal: str = ""


def accepts(goal: Goal, verdict: TrialVerdict) -> tuple[bool, str]:
    """Whether the trial speaks for the change, and its words."""
    if verdict.refusal:
        return False, verdict.refusal
    told = f"in a trial p90 {verdict.old_ms:.2f} -> {verdict.new_ms:.2f} ms"
    if goal is Goal.MEMORY:
        saves = verdict.new_mb < verdict.old_mb
        return saves and verdict.low <= ALLOWED_COST, f"{told}, {verdict.old_mb:.0f} -> {verdict.new_mb:.0f} MB"
    return verdict.high < 1.0 and verdict.ratio <= LEAST_GAIN, told


class Outcome(str, enum.Enum):
    """What becomes of a watched change."""

    WAIT = "wait"
    KEEP = "kept"
    REVERT = "reverted"
    OVERTAKEN = "overtaken"


def watch_of(
    history: Sequence[Observation], memory: ControllerState, model: str, pacing: Pacing
) -> tuple[float | None, float]:  # fmt: skip
    """Live p95 in ms and arrival rate in the present situation, before a change; None: too few requests."""
    seen = same_situation(history, memory)
    sketch = total_sketch(seen, model)
    p95_us = sketch.quantile_us(0.95) if sketch.count >= pacing.min_requests else None
    return (None if p95_us is None else p95_us / 1000), mean_arrival_per_s(seen, model)


def judge(
    history: Sequence[Observation], memory: ControllerState, watch: Watch, model: str, pacing: Pacing
) -> tuple[Outcome, str]:  # fmt: skip
    """The live p95 since the change against the one before it, in the same situation."""
    now_s = history[-1].at_s
    if memory.episode != watch.episode:
        return Outcome.OVERTAKEN, "the situation changed before it could be judged"
    if now_s < watch.since_s + pacing.floor_s:
        return Outcome.WAIT, ""
    seen = same_situation(history, memory)
    sketch = total_sketch(seen, model)
    p95_us, rate = sketch.quantile_us(0.95), mean_arrival_per_s(seen, model)
    if watch.before_p95_ms is None or p95_us is None or sketch.count < pacing.min_requests:
        if now_s < watch.since_s + pacing.watch_max_s and watch.before_p95_ms is not None:
            return Outcome.WAIT, ""
        return Outcome.KEEP, f"{watch.trial} (too few requests to compare)".strip()
    told = f"p95 {watch.before_p95_ms:.1f} -> {p95_us / 1000:.1f} ms"
    if not 1 / OTHER_LOAD <= rate / max(watch.before_rate, 1e-9) <= OTHER_LOAD:
        return Outcome.KEEP, f"{told} at {watch.before_rate:.1f} -> {rate:.1f} requests/s; {watch.trial}"
    helped = p95_us / 1000 <= watch.before_p95_ms * ALLOWED_LIVE_RATIO.get(watch.move.goal, 1.0)
    return (Outcome.KEEP if helped else Outcome.REVERT), told
