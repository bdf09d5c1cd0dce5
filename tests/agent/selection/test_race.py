"""The race over simulated lanes on a simulated machine: a clock that only runs while somebody runs."""

from __future__ import annotations

import random

import pytest

from agent.errors import SelectionCanceled, TrialError
from agent.selection.race import Contender, RacePlan, run_race, slice_count


class Machine:
    """Time, who runs when, and a load that slows everybody."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.turns: list[str] = []
        self.running: str | None = None

    def clock(self) -> float:
        return self.now_s

    def load(self) -> float:
        return 3.0 if int(self.now_s * 2) % 2 else 1.0


class SimulatedLane:
    def __init__(
        self, machine: Machine, name: str, us: float, fails_at: int | None = None, noise: float = 0.02
    ) -> None:
        self.name = name
        self._machine = machine
        self._us = us
        self._fails_at = fails_at
        self._noise = noise
        self._turn = 0
        self._rng = random.Random(name)

    def run(self, count: int, warm: int) -> list[float]:
        assert self._machine.running is None, "two contenders at the same moment"
        self._machine.running = self.name
        self._machine.turns.append(self.name)
        self._turn += 1
        if self._turn == self._fails_at:
            self._machine.running = None
            raise TrialError("died of SIGILL", kind="crash")
        times = [self._us * self._machine.load() * self._rng.uniform(1, 1 + self._noise) for _ in range(count)]
        self._machine.now_s += sum(times) / 1e6
        return times

    def settle(self) -> None:
        self._machine.running = None


def contenders(machine: Machine, **us: float) -> list[Contender]:
    return [Contender(SimulatedLane(machine, name, value), value) for name, value in us.items()]


def test_the_fastest_wins_although_the_machine_changes_its_pace() -> None:
    machine = Machine()
    outcome = run_race(contenders(machine, a=1000, b=1060, c=1500, d=4000), RacePlan(deadline=60.0), machine.clock)
    assert outcome.table[0].name == "a"
    assert outcome.decided
    assert {"c", "d"} <= set(outcome.dropped)
    assert "times as slow as a" in outcome.dropped["d"]


def test_every_round_gives_each_one_turn_in_a_turning_order() -> None:
    machine = Machine()
    plan = RacePlan(deadline=60.0, halve=False, max_rounds=4)
    run_race(contenders(machine, a=100, b=100, c=100), plan, machine.clock)
    rounds = [machine.turns[i : i + 3] for i in range(0, 12, 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in rounds)
    assert len({turn[0] for turn in rounds}) == 3


def test_losers_cost_no_more_time() -> None:
    machine = Machine()
    run_race(contenders(machine, fast=1000, slow=9000), RacePlan(deadline=60.0), machine.clock)
    assert machine.turns.count("slow") == 3


def test_time_ends_the_race_but_not_before_the_least_number_of_rounds() -> None:
    machine = Machine()
    machine.now_s = 100.0
    outcome = run_race(contenders(machine, a=1000, b=1010), RacePlan(deadline=0.0, min_rounds=3), machine.clock)
    assert outcome.rounds == 3
    assert not outcome.decided
    assert len(outcome.table) == 2


def test_one_that_fails_is_out_and_the_others_go_on() -> None:
    machine = Machine()
    field = contenders(machine, a=1000, b=1010)
    field.append(Contender(SimulatedLane(machine, "bad", 500, fails_at=2), 500))
    outcome = run_race(field, RacePlan(deadline=60.0, max_rounds=12), machine.clock)
    assert outcome.failed["bad"].kind == "crash"
    assert outcome.table[0].name == "a"


def test_when_all_fail_the_table_is_empty() -> None:
    machine = Machine()
    lane = SimulatedLane(machine, "only", 100, fails_at=1)
    outcome = run_race([Contender(lane, 100)], RacePlan(deadline=60.0), machine.clock)
    assert outcome.table == []
    assert list(outcome.failed) == ["only"]


def test_a_cancel_ends_it_at_once() -> None:
    class Canceled(SimulatedLane):
        def run(self, count: int, warm: int) -> list[float]:
            raise SelectionCanceled("canceled")

    machine = Machine()
    with pytest.raises(SelectionCanceled):
        run_race([Contender(Canceled(machine, "x", 1), 1)], RacePlan(deadline=60.0), machine.clock)


def test_slices_take_about_the_same_time_whatever_a_model_costs() -> None:
    plan = RacePlan(deadline=0, slice_s=0.025)
    assert slice_count(1000, plan) == 25
    assert slice_count(1e6, plan) == plan.min_count
    assert slice_count(0.0, plan) == plan.max_count


def test_a_watcher_sees_every_round() -> None:
    machine = Machine()
    seen: list[int] = []
    plan = RacePlan(deadline=60.0, halve=False, max_rounds=5)
    run_race(contenders(machine, a=100), plan, machine.clock, lambda _order, done: seen.append(done))
    assert seen == [1, 2, 3, 4, 5]
