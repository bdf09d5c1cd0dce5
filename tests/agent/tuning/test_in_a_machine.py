"""The whole of tuning in a simulated machine: a neighbour comes and goes, time is virtual, everything is seeded."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tuning.controller_state import Pacing
from agent.tuning.model_tuning import ModelTuning
from agent.tuning.seams import Device, TuningEvent
from agent.tuning.tuner import Tuner, TunerParts
from tests.simulators.contended_machine import ContendedMachine, Hog, SimulatedModel

PACING = Pacing()
LONG_S = 1500.0
WORST_RATIO = 1.10
TOLD_APART = 1.05
"""A trial asks for a gain of 2 %, and its noise adds as much again."""


class Tuned:
    """A machine with its tuner."""

    def __init__(self, machine: ContendedMachine, pacing: Pacing = PACING) -> None:
        self.machine = machine
        self.events: list[TuningEvent] = []
        self.most_threads = 0
        self.over_budget_s = 0.0
        device = Device(float(machine.cpus), frozenset(range(machine.cpus)))
        self.pacing = pacing
        self.tuner = Tuner(
            TunerParts(eye=machine, serving=machine, trial=machine.trial, device=device, clock=machine,
                       tell=self.events.append, pacing=pacing)
        )  # fmt: skip
        machine.start()

    def run(self, seconds: float) -> None:
        end_s = self.machine.now_s + seconds
        while self.machine.now_s < end_s:
            self.machine.advance(self.pacing.interval_s)
            self.tuner.tune_once()
            self.most_threads = max(self.most_threads, *(m.current.threads for m in self.machine.by_name.values()))

    def cost_ratio(self, model: SimulatedModel) -> float:
        """The time of an inference now, as a multiple of the best that these settings allow."""
        machine = self.machine
        sets = [frozenset(range(n, machine.cpus)) for n in range(1, machine.cpus)]
        best = min(
            machine.infer_ms(model, ModelTuning(threads, spinning, cpus=cpus), machine.now_s)
            for threads in range(1, machine.cpus + 1)
            for spinning in (False, True)
            for cpus in [None, *sets]
        )
        return machine.infer_ms(model, model.current, machine.now_s) / best


def one_model(cpus: int, **more: object) -> SimulatedModel:
    spinning = more.pop("spinning", False)
    return SimulatedModel("m", ModelTuning(cpus, bool(spinning)), **more)  # type: ignore[arg-type]


@st.composite
def hog_schedules(draw: st.DrawFn, cpus: int) -> list[Hog]:
    """Up to four visits in the first 20 minutes, and perhaps one that stays to the end."""
    hogs, at_s = [], 100.0
    for _ in range(draw(st.integers(0, 4))):
        from_s = at_s + draw(st.integers(5, 200))
        until_s = from_s + draw(st.integers(5, 250))
        hogs.append(Hog(from_s, until_s, draw(st.sampled_from([0.6, 1.0, 2.0]))))
        at_s = until_s
    if draw(st.booleans()):
        hogs.append(Hog(at_s + 10, 1e9, draw(st.sampled_from([1.0, float(max(1, cpus - 1))]))))
    return hogs


def test_threads_are_taken_back_while_another_process_is_there_and_returned_when_it_is_gone() -> None:
    model = one_model(2)
    tuned = Tuned(ContendedMachine(2, [model], [Hog(100, 600)]))
    tuned.run(90)
    assert model.current == model.home
    tuned.run(300)
    assert (model.current.threads, model.current.spinning) == (1, False)
    assert tuned.events[0].text.startswith("threads 2 -> 1: another process holds 1.0 of 2 CPUs; p95 ")
    assert tuned.events[0].text.endswith(" ms; kept")
    tuned.run(600)
    assert model.current == model.home
    assert [event.kind for event in tuned.events] == ["tuning.changed"] * 2


def test_nothing_is_measured_on_a_quiet_machine_where_selection_has_chosen() -> None:
    machine = ContendedMachine(4, [one_model(4)])
    Tuned(machine).run(1800)
    assert machine.trials == []
    assert machine.changes == []


def test_spinning_goes_first_where_all_threads_are_worth_having() -> None:
    model = one_model(4, spinning=True, parallel=0.95)
    tuned = Tuned(ContendedMachine(4, [model], [Hog(60, 1e9)]))
    tuned.run(600)
    assert model.current.spinning is False


@given(data=st.data(), cpus=st.integers(1, 8), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_it_ends_at_the_better_setting_however_the_neighbours_come_and_go(
    data: st.DataObject, cpus: int, seed: int
) -> None:  # fmt: skip
    model = one_model(
        cpus, spinning=data.draw(st.booleans()), parallel=data.draw(st.sampled_from([0.3, 0.7, 0.95])),
        work_ms=data.draw(st.sampled_from([4.0, 20.0])), rate_per_s=data.draw(st.sampled_from([6.0, 12.0])),
    )  # fmt: skip
    machine = ContendedMachine(cpus, [model], data.draw(hog_schedules(cpus)), seed=seed)
    tuned = Tuned(machine)
    tuned.run(1900 + LONG_S)
    home_ms = machine.infer_ms(model, model.home, machine.now_s)
    now_ms = machine.infer_ms(model, model.current, machine.now_s)
    assert now_ms <= home_ms * TOLD_APART, "never worse than leaving it as it was, as far as a trial can tell"
    assert tuned.cost_ratio(model) <= WORST_RATIO, "as good as the best of all settings, but for what a trial can tell"
    assert tuned.most_threads <= cpus
    times = [at_s for at_s, _, _ in machine.changes]
    assert all(b - a >= PACING.floor_s for a, b in itertools.pairwise(times)), "never more often than the floor"


def test_a_neighbour_that_flickers_does_not_make_it_flap() -> None:
    hogs = [Hog(start, start + 12) for start in range(100, 3600, 24)]
    machine = ContendedMachine(2, [one_model(2)], hogs)
    Tuned(machine).run(3600)
    assert len(machine.changes) <= 12


def test_a_change_that_helps_in_the_trial_and_not_in_life_is_taken_back_and_not_tried_again() -> None:
    model = one_model(2)
    machine = ContendedMachine(2, [model], [Hog(60, 1e9)])
    machine.live_factor = lambda tuning: 3.0 if tuning.threads == 1 and tuning.cpus is None else 1.0
    tuned = Tuned(machine)
    tuned.run(1200)
    tried = [tuning for _, _, tuning in machine.trials]
    assert any(event.kind == "tuning.reverted" for event in tuned.events)
    assert tried.count(ModelTuning(1, False)) == 1
    assert machine.live_factor(model.current) == 1.0


def test_two_models_share_one_budget_by_what_they_have_to_do() -> None:
    busy = SimulatedModel("busy", ModelTuning(4, False), rate_per_s=20, work_ms=40)
    other = SimulatedModel("other", ModelTuning(4, False), rate_per_s=5, work_ms=20)
    tuned = Tuned(ContendedMachine(4, [busy, other]))
    tuned.run(300)
    assert (busy.current.threads, other.current.threads) == (3, 1)


def test_a_model_that_sleeps_takes_nothing_from_one_that_works() -> None:
    busy = SimulatedModel("busy", ModelTuning(4, False), rate_per_s=10)
    asleep = SimulatedModel("asleep", ModelTuning(4, False), rate_per_s=0)
    tuned = Tuned(ContendedMachine(4, [busy, asleep]))
    tuned.run(300)
    assert busy.current.threads == 4


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(1, 60)), min_size=1, max_size=4), st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_models_that_are_awake_never_hold_more_threads_than_the_budget(
    loads: list[tuple[float, float]], cpus: int
) -> None:  # fmt: skip
    models = [
        SimulatedModel(f"m{i}", ModelTuning(cpus, False), rate_per_s=rate, work_ms=work)
        for i, (rate, work) in enumerate(loads)
    ]
    tuned = Tuned(ContendedMachine(cpus, models, [Hog(100, 300)]))
    for _ in range(100):
        tuned.run(PACING.interval_s)
        awake = [m.current.threads for m in models if m.rate_per_s * m.work_ms / 1000 >= 0.1]
        assert sum(awake) <= max(cpus, len(awake))


def test_a_quota_that_shrinks_takes_threads_at_once_whatever_the_floor() -> None:
    model = one_model(4)
    machine = ContendedMachine(4, [model])
    tuned = Tuned(machine)
    tuned.run(60)
    machine.quota_cpus = 1.5
    tuned.run(PACING.interval_s)
    assert model.current.threads == 1


def test_the_same_seed_gives_the_same_history() -> None:
    def history() -> list[object]:
        machine = ContendedMachine(4, [one_model(4)], [Hog(50, 400), Hog(700, 900, 2.0)], seed=3)
        Tuned(machine).run(1500)
        return [*machine.changes, *machine.trials]

    assert history() == history()
