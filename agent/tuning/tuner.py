"""The thread that tunes: observe, propose, measure, swap, watch, keep or revert, tell.

At most one trial at a time and one per turn. While an update is in flight it only observes: its own measurements would
falsify the update's, and a bundle on probation is not to be changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.clock import Clock
from agent.errors import AgentError, SelectionCanceled
from agent.hardware.budget import threads_of
from agent.tuning import allocation, controller_state
from agent.tuning.controller import Nothing, Proposal, noticed, propose
from agent.tuning.controller_state import ControllerState, Pacing, Watch
from agent.tuning.judgement import Outcome, accepts, judge, watch_of
from agent.tuning.model_tuning import ModelTuning, described
from agent.tuning.moves import Goal, Limits, Move
from agent.tuning.observation import Observation, demand_cpus
from agent.tuning.seams import Device, Eye, Trial, TunedModel, TunedServing, TuningEvent

_log = logging.getLogger(__name__)
REMEMBERED = 36
LONGEST_RETRY_S = 300.0


@dataclass(frozen=True)
class TunerParts:
    """``is_busy``: an update is in flight. ``tell``: called on the tuner's thread."""

    eye: Eye
    serving: TunedServing
    trial: Trial
    device: Device
    clock: Clock
    tell: Callable[[TuningEvent], None]
    is_busy: Callable[[], bool] = lambda: False
    pacing: Pacing = field(default_factory=Pacing)


@dataclass
class _Model:
    """What is remembered of one bundle."""

    digest: str
    memory: ControllerState = field(default_factory=ControllerState)
    reason: str = ""


class Tuner:
    """``run`` is the thread's body; ``tune_once`` one turn of it, for a caller with a loop of its own."""

    def __init__(self, parts: TunerParts) -> None:
        self._parts = parts
        self._stop = threading.Event()
        self._history: list[Observation] = []
        self._models: dict[str, _Model] = {}
        self._awake: frozenset[str] = frozenset()
        self._shares: dict[str, int] = {}
        self._crashed: set[str] = set()
        self._is_resting = False
        self.is_measuring = False

    def run(self) -> None:
        """Until ``stop``."""
        parts, wait_s = self._parts, self._parts.pacing.interval_s
        parts.eye.start()
        while not parts.clock.wait(self._stop, wait_s):
            try:
                self.tune_once()
                wait_s = parts.pacing.interval_s
            except Exception:  # noqa: BLE001 - tuning is a comfort: no bug in it may end the agent that serves
                _log.exception("tuning failed")
                wait_s = min(LONGEST_RETRY_S, wait_s * 2)

    def stop(self) -> None:
        """From any thread; a trial that runs is canceled."""
        self._stop.set()

    def on_engine_crashed(self, model: str | None) -> None:
        """From any thread: a change that is being watched is blamed. None: it is not known whose request it was."""
        self._crashed.add(model or "")

    def tune_once(self) -> None:
        """Observe, then do at most one thing for each model, and at most one trial."""
        parts = self._parts
        models = {model.name: model for model in parts.serving.models()}
        if not models:
            self._rest()
            return
        if self._is_resting:
            self._is_resting = False
            parts.eye.start()
            return
        observation = parts.eye.read()
        busy = parts.is_busy()
        self._remember(observation, disturbed=busy)
        crashed, self._crashed = self._crashed, set()
        self._models = {name: self._known(model) for name, model in models.items()}
        self._share_out(models, observation)
        may_measure = not busy
        for name, model in models.items():
            may_measure = self._turn(model, may_measure, crashed=bool(crashed & {name, ""})) and may_measure

    def reasons(self) -> dict[str, str]:
        """Why each model is as it is, for status and doctor."""
        return {name: known.reason for name, known in self._models.items()}

    # one model ----------------------------------------------------------------------------------------------------

    def _turn(self, model: TunedModel, may_measure: bool, *, crashed: bool) -> bool:
        """Whether another model may still be measured in this turn."""
        parts, known = self._parts, self._models[model.name]
        limits = self._limits(model)
        known.memory = noticed(self._history, model.current, limits, known.memory, parts.pacing)
        decision = propose(self._history, model.current, limits, known.memory, parts.pacing)
        if isinstance(decision, Proposal) and decision.move.goal is Goal.BUDGET and not parts.is_busy():
            self._swap(model, known, decision.move, None)
            return may_measure
        if known.memory.watch is not None:
            if not parts.is_busy():
                self._judge(model, known, known.memory.watch, crashed=crashed)
            return True
        if isinstance(decision, Nothing):
            known.reason = decision.reason
            if decision.is_final:
                known.memory = controller_state.settled(known.memory)
            return True
        if not may_measure:
            known.reason = "an update is in flight, or another model is measured"
            return True
        self._try(model, known, decision.move)
        return False

    def _try(self, model: TunedModel, known: _Model, move: Move) -> None:
        """Measure unless only live requests can tell, and swap when the trial speaks for it."""
        parts = self._parts
        before_ms, rate = watch_of(self._history, known.memory, model.name, parts.pacing)
        told = ""
        if move.goal is not Goal.QUEUE:
            good, told = self._measured(model, move)
            if not good:
                _log.info("%s: %s: not taken: %s", model.name, described(model.current, move.tuning), told)
                known.reason = f"{described(model.current, move.tuning)} is not better: {told}"
                known.memory = controller_state.failed(known.memory, move.tuning, self._now_s(), parts.pacing)
                self._forget_what_we_disturbed()
                return
            self._forget_what_we_disturbed()
        watch = Watch(model.current, move, self._now_s(), known.memory.episode, before_ms, rate, told)
        self._swap(model, known, move, watch)

    def _measured(self, model: TunedModel, move: Move) -> tuple[bool, str]:
        parts = self._parts
        self.is_measuring = True
        try:
            verdict = parts.trial(model, move.tuning, lambda: self._stop.is_set() or parts.is_busy())
        except SelectionCanceled:
            return False, "the trial was canceled"
        except (AgentError, OSError) as error:
            return False, f"the trial failed: {error}"
        finally:
            self.is_measuring = False
        return accepts(move.goal, verdict)

    def _swap(self, model: TunedModel, known: _Model, move: Move, watch: Watch | None) -> None:
        what = described(model.current, move.tuning)
        if not self._applied(model, known, move.tuning, f"{what}: {move.why}"):
            return
        now_s = self._now_s()
        watching = None if watch is None else replace(watch, since_s=now_s)
        known.memory = controller_state.changed(known.memory, now_s, watching)
        known.reason = f"{what}: {move.why}" + ("; watched" if watch else "")
        if watch is None:
            self._tell("tuning.changed", model, move, f"{what}: {move.why}")

    def _applied(self, model: TunedModel, known: _Model, tuning: ModelTuning, what: str) -> bool:
        try:
            self._parts.serving.apply(model.name, model.digest, tuning)
        except (AgentError, OSError) as error:
            known.memory = controller_state.failed(known.memory, tuning, self._now_s(), self._parts.pacing)
            known.reason = f"{what}: cannot be applied: {error}"
            self._parts.tell(TuningEvent("tuning.failed", model.name, known.reason))
            return False
        finally:
            self._forget_what_we_disturbed()
        return True

    def _judge(self, model: TunedModel, known: _Model, watch: Watch, *, crashed: bool) -> None:
        pacing, move, what = self._parts.pacing, watch.move, described(watch.old, watch.move.tuning)
        outcome, told = judge(self._history, known.memory, watch, model.name, pacing)
        if crashed:
            outcome, told = Outcome.REVERT, "the engine crashed"
        if outcome is Outcome.WAIT:
            return
        text = f"{what}: {move.why}; {told}; {'reverted' if outcome is Outcome.REVERT else 'kept'}"
        known.reason = text
        if outcome is Outcome.REVERT:
            back = watch.old.but(threads=min(watch.old.threads, self._limits(model).share))
            known.memory = controller_state.reverted(known.memory, move.tuning, self._now_s(), pacing)
            if self._applied(model, known, back, f"back after {what}"):
                self._tell("tuning.reverted", model, move, text)
            return
        kept = controller_state.kept(known.memory, move.tuning)
        known.memory = controller_state.overtaken(known.memory) if outcome is Outcome.OVERTAKEN else kept
        self._tell("tuning.changed", model, move, text)

    def _rest(self) -> None:
        """Nothing serves: nothing is worth looking at, and a small board's idle time is its own."""
        self._is_resting = True
        self._history.clear()
        self._models.clear()

    # the device ---------------------------------------------------------------------------------------------------

    def _share_out(self, models: dict[str, TunedModel], observation: Observation) -> None:
        quota, budget = observation.quota_cpus, self._parts.device.budget_cpus
        threads = threads_of(budget if quota is None else min(budget, quota))
        demand = {name: demand_cpus(self._history, name) for name in models}
        self._awake = allocation.awake(demand, self._awake)
        self._shares = allocation.allocate(demand, self._awake, threads, self._shares)

    def _limits(self, model: TunedModel) -> Limits:
        device, quota = self._parts.device, self._history[-1].quota_cpus
        share = self._shares[model.name]
        return Limits(
            model=model.name, share=share, cpus=device.cpus, knobs=model.knobs, big_cpus=device.big_cpus,
            budget_cpus=device.budget_cpus if quota is None else min(device.budget_cpus, quota),
            home=model.home.but(threads=min(model.home.threads, share)), max_window_ms=model.max_window_ms,
            reserve_mb=device.reserve_mb,
        )  # fmt: skip

    def _known(self, model: TunedModel) -> _Model:
        """A new bundle begins anew."""
        known = self._models.get(model.name)
        return known if known is not None and known.digest == model.digest else _Model(model.digest)

    def _forget_what_we_disturbed(self) -> None:
        """What was served while we measured or swapped is no evidence for the next verdict."""
        self._remember(self._parts.eye.read(), disturbed=True)

    def _remember(self, observation: Observation, *, disturbed: bool) -> None:
        self._history.append(replace(observation, disturbed=True) if disturbed else observation)
        del self._history[:-REMEMBERED]

    def _now_s(self) -> float:
        return self._parts.clock.monotonic()

    def _tell(self, kind: str, model: TunedModel, move: Move, text: str) -> None:
        facts: dict[str, str | int | float | bool | None] = {
            "threads": move.tuning.threads, "spinning": move.tuning.spinning, "goal": move.goal.value
        }  # fmt: skip
        self._parts.tell(TuningEvent(kind, model.name, text, facts))
