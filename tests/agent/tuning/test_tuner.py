"""The tuner's thread body: failures on every side, updates in flight, bundles that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent.errors import LoadFailed, SelectionCanceled, TrialError
from agent.tuning.judgement import TrialVerdict
from agent.tuning.model_tuning import ModelTuning
from agent.tuning.seams import Device, TunedModel, TuningEvent
from agent.tuning.tuner import Tuner, TunerParts
from tests.simulators.contended_machine import ContendedMachine, Hog, SimulatedModel

INTERVAL_S = 5.0


class Rig:
    """One model on two CPUs with a neighbour from 30 s on."""

    def __init__(self, **parts: Any) -> None:
        self.model = SimulatedModel("m", ModelTuning(2, spinning=False))
        self.machine = ContendedMachine(2, [self.model], [Hog(30, 1e9)])
        self.events: list[TuningEvent] = []
        machine: Any = self.machine
        self.parts = TunerParts(**{
            "eye": machine, "serving": machine, "trial": machine.trial, "clock": machine, "tell": self.events.append,
            "device": Device(2.0, frozenset({0, 1})), **parts,
        })  # fmt: skip
        self.tuner = Tuner(self.parts)
        self.machine.start()

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / INTERVAL_S)):
            self.machine.advance(INTERVAL_S)
            self.tuner.tune_once()


def trial_that_raises(error: Exception) -> Callable[..., TrialVerdict]:
    def trial(model: TunedModel, tuning: ModelTuning, is_canceled: Callable[[], bool]) -> TrialVerdict:
        raise error

    return trial


@pytest.mark.parametrize(
    "error", [TrialError("died by SIGILL", kind="crash"), SelectionCanceled("stop"), OSError(28, "no space")]
)
def test_a_trial_that_fails_changes_nothing_and_ends_nothing(error: Exception) -> None:
    rig = Rig(trial=trial_that_raises(error))
    rig.run(600)
    assert rig.machine.changes == []
    assert rig.model.current == rig.model.home


def test_a_session_that_cannot_be_opened_live_is_told_and_not_tried_again() -> None:
    rig = Rig()
    tried: list[ModelTuning] = []

    def refuse(name: str, digest: str, tuning: ModelTuning) -> None:
        tried.append(tuning)
        raise LoadFailed(name, "no memory")

    rig.machine.apply = refuse  # type: ignore[method-assign]
    rig.run(900)
    assert len(tried) == len(set(tried)) > 0
    assert {event.kind for event in rig.events} == {"tuning.failed"}
    assert "no memory" in rig.events[0].text


def test_nothing_is_measured_or_changed_while_an_update_is_in_flight() -> None:
    busy = [True]
    rig = Rig(is_busy=lambda: busy[0])
    rig.run(300)
    assert rig.machine.trials == []
    busy[0] = False
    rig.run(300)
    assert rig.model.current.threads == 1


def test_an_engine_that_dies_after_a_change_takes_the_change_back() -> None:
    rig = Rig()
    while not rig.machine.changes:
        rig.run(INTERVAL_S)
    rig.tuner.on_engine_crashed("m")
    rig.run(INTERVAL_S)
    assert rig.model.current == rig.model.home
    assert rig.events[-1].kind == "tuning.reverted"
    assert "the engine crashed" in rig.events[-1].text


def test_a_crash_of_another_model_is_not_blamed_on_the_change() -> None:
    rig = Rig()
    while not rig.machine.changes:
        rig.run(INTERVAL_S)
    rig.tuner.on_engine_crashed("other")
    rig.run(INTERVAL_S)
    assert rig.model.current != rig.model.home


def test_a_new_bundle_begins_as_selection_chose_it() -> None:
    rig = Rig()
    rig.run(300)
    assert rig.model.current.threads == 1
    rig.model.digest, rig.model.current = "sha256:2", rig.model.home
    trials = len(rig.machine.trials)
    rig.run(120)
    assert len(rig.machine.trials) > trials, "what was learned of the old one is not believed of the new one"
    assert rig.model.current.threads == 1


def test_the_reason_why_a_model_is_as_it_is_can_be_asked() -> None:
    rig = Rig()
    rig.run(15)
    assert rig.tuner.reasons() == {"m": "settled (taken 0 share 2)"}
    rig.run(1500)
    assert rig.tuner.reasons()["m"].startswith("settled (taken 1 share 2")


def test_the_thread_survives_a_bug_in_tuning_and_ends_when_told() -> None:
    rig = Rig()
    turns = 0

    def broken() -> list[TunedModel]:
        nonlocal turns
        turns += 1
        if turns == 5:
            rig.tuner.stop()
        raise RuntimeError("a bug")

    rig.machine.models = broken  # type: ignore[method-assign]
    rig.tuner.run()
    assert turns == 5
    assert rig.machine.now_s > 5 * INTERVAL_S, "it waits longer after each failure"


def test_while_nothing_serves_nothing_is_looked_at_and_a_model_that_comes_is_tuned() -> None:
    rig = Rig()
    machine: Any = rig.machine
    model = machine.by_name.pop("m")
    reads = 0
    read = machine.read

    def counted() -> Any:
        nonlocal reads
        reads += 1
        return read()

    machine.read = counted
    rig.run(600)
    assert reads == 0
    machine.by_name["m"] = model
    rig.run(300)
    assert reads > 0
    assert model.current.threads == 1
