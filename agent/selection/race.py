"""The race: live trials run slices one at a time, in interleaved rounds (A B C, B C A, ...), until it is decided.

Never do two contenders run at the same moment, and a slice only starts when the one before has come to rest (spinning
threads included). Load that comes and goes hits all contenders of a round alike, which is what makes them comparable.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.errors import SelectionCanceled, TrialError
from agent.selection.halving import MARGIN_AT_RUNG, Standing, drop_text, is_decided, standings, to_drop

DECIDED_AFTER_ROUNDS = 6
"""Bounds from fewer rounds are too bold to end a race on."""


class Lane(Protocol):
    """A contender that can be asked to run."""

    @property
    def name(self) -> str:
        """Unique in the race."""

    def run(self, count: int, warm: int) -> list[float]:
        """Microseconds of ``count`` inferences after ``warm`` untimed ones. Raises TrialError."""

    def settle(self) -> None:
        """Return when it uses no CPU any more, or after a short while."""


@dataclass(frozen=True)
class RacePlan:
    """slice_s: time of one contender's turn. fraction: the statistic (quantile, None = mean). deadline: by the clock.

    halve: drop contenders on the way. At least ``min_rounds`` are done whatever the deadline says.
    """

    deadline: float
    fraction: float | None = 0.9
    slice_s: float = 0.025
    min_count: int = 2
    max_count: int = 256
    min_rounds: int = 3
    max_rounds: int = 96
    halve: bool = True
    seed: int = 0


@dataclass
class Contender:
    """``rounds``: samples in microseconds by round. ``typical_us``: what one inference takes, for sizing the slices."""

    lane: Lane
    typical_us: float
    rounds: dict[int, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class RaceOutcome:
    """table: the survivors, best first (empty when all failed). out: the dropped as they stood then; dropped: name to
    reason. failed: name to what happened.

    decided: False when time ended the race before the noise was overcome.
    """

    table: list[Standing]
    out: list[Standing]
    dropped: dict[str, str]
    failed: dict[str, TrialError]
    rounds: int
    decided: bool


Watch = Callable[[Sequence[Contender], int], None]


def run_race(
    contenders: Sequence[Contender], plan: RacePlan, clock: Callable[[], float], watch: Watch | None = None
) -> RaceOutcome:
    """Race ``contenders``, filling in their rounds. Raises SelectionCanceled."""
    order = list(contenders)
    rng = random.Random(plan.seed)
    rng.shuffle(order)
    dropped: dict[str, str] = {}
    failed: dict[str, TrialError] = {}
    out: list[Standing] = []
    done = 0
    table: list[Standing] = []
    decided = False
    while order and done < plan.max_rounds and not decided:
        if done >= plan.min_rounds and clock() >= plan.deadline:
            break
        order = order[1:] + order[:1]
        order = _round(order, done, plan, failed)
        done += 1
        if watch is not None:
            watch(order, done)
        if plan.halve and order and done in MARGIN_AT_RUNG:
            table = _table(order, plan)
            losers = to_drop(table, done)
            gone = {standing.name: drop_text(standing, table[0], done) for standing in losers}
            dropped.update(gone)
            out += losers
            order = [contender for contender in order if contender.lane.name not in gone]
            table = [standing for standing in table if standing.name not in gone]
            decided = done >= max(plan.min_rounds, DECIDED_AFTER_ROUNDS) and is_decided(table)
    return RaceOutcome(_table(order, plan) if order else [], out, dropped, failed, done, decided)


def _round(order: Sequence[Contender], number: int, plan: RacePlan, failed: dict[str, TrialError]) -> list[Contender]:
    """One turn for each; those that fail are out."""
    alive: list[Contender] = []
    for contender in order:
        count = slice_count(contender.typical_us, plan)
        try:
            samples = contender.lane.run(count, 1 if count < 8 else 2)
            contender.lane.settle()
        except SelectionCanceled:
            raise
        except TrialError as error:
            failed[contender.lane.name] = error
            continue
        contender.rounds[number] = samples
        contender.typical_us = sorted(samples)[len(samples) // 2]
        alive.append(contender)
    return alive


def slice_count(typical_us: float, plan: RacePlan) -> int:
    """Inferences in one turn: as many as fit in the slice, within the plan's bounds."""
    fitting = int(plan.slice_s * 1e6 / max(typical_us, 1.0))
    return max(plan.min_count, min(plan.max_count, fitting))


def _table(order: Sequence[Contender], plan: RacePlan) -> list[Standing]:
    return standings({c.lane.name: c.rounds for c in order}, plan.fraction, seed=plan.seed)
