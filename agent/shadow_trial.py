"""A proposed tuning against the one that serves: two trial processes beside the live engine, in interleaved rounds.

Both are judged alike by whatever load there is: the live engine's requests and other processes are part of it.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.errors import TrialError
from agent.inference.bundle_folder import BundleFolder, open_bundle_folder
from agent.selection.candidates import Entrant
from agent.selection.lanes import LiveLane, ReopenedLane
from agent.selection.live_limit import expected_mb, live_limit
from agent.selection.quarantine import Quarantine, this_boot
from agent.selection.race import Contender, RacePlan, run_race
from agent.selection.request import SelectionRequest, SelectionTools
from agent.selection.statistics import common_rounds, quantile, ratio_bounds
from agent.selection.trial_pool import Opened, Rejected, TrialPool
from agent.serving.control import ServedModel
from agent.tuning.judgement import LEAST_GAIN, TrialVerdict
from agent.tuning.model_tuning import ModelTuning, to_options
from agent.tuning.seams import TunedModel
from edge_contracts.bundle import Variant
from edge_contracts.capabilities import Capabilities
from edge_contracts.errors import ContractError

ROUNDS = 40
LEAST_ROUNDS = 12
MAX_HEATS = 3
SLICE_S = 0.02
MAX_DROP = 0.01
NEW, OLD = "new", "old"


@dataclass(frozen=True)
class ShadowTrials:
    """An agent.tuning.seams.Trial. ``served``: the model of that name as selection chose it, None when it is gone.

    ``make_tools``: cache, limits and clock of a trial; its work_dir is emptied here. ``budget_s``: after it the rounds
    of a heat are cut short, at LEAST_ROUNDS at the least.
    """

    served: Callable[[str], ServedModel | None]
    device: Capabilities
    affinity: frozenset[int] | None
    make_tools: Callable[[Callable[[], bool]], SelectionTools]
    budget_s: float = 6.0

    def __call__(self, model: TunedModel, new: ModelTuning, is_canceled: Callable[[], bool]) -> TrialVerdict:
        """Raises SelectionCanceled, and TrialError that is no evidence when a trial was ended from outside."""
        served = self.served(model.name)
        if served is None or served.digest != model.digest:
            return TrialVerdict(refusal="another bundle serves by now")
        if served.python not in (None, sys.executable):
            return TrialVerdict(refusal="its runtime lives in an environment of its own: not tried")
        try:
            folder = open_bundle_folder(Path(served.folder))
        except ContractError as error:
            return TrialVerdict(refusal=str(error))
        variant = folder.bundle.variant(served.variant)
        if variant is None:
            return TrialVerdict(refusal=f"the bundle has no variant {served.variant!r}")
        tools = self.make_tools(is_canceled)
        tunings = {NEW: new, OLD: model.current}
        entrants = {
            role: Entrant(variant, to_options(tuning, served.options, model.knobs)) for role, tuning in tunings.items()
        }
        try:
            return self._compared(folder, variant, entrants, tunings, tools)
        finally:
            shutil.rmtree(tools.work_dir, ignore_errors=True)

    def _compared(
        self, folder: BundleFolder, variant: Variant, entrants: dict[str, Entrant], tunings: dict[str, ModelTuning],
        tools: SelectionTools,
    ) -> TrialVerdict:  # fmt: skip
        # Of this trial alone: a lack of memory beside the live engine must not keep a variant from the next update.
        quarantine = Quarantine(tools.work_dir / "quarantine.json", this_boot)
        available_mb = tools.available_mb()
        fitting = live_limit(available_mb, tools.limits.reserve_mb, expected_mb(variant.spec), 2)
        pools = {role: TrialPool(self._request(folder, tuning), tools, quarantine) for role, tuning in tunings.items()}
        opened: dict[str, Opened] = {}
        try:
            for role, pool in pools.items():
                answer = _first(pool, entrants[role], reopen=fitting < 2)
                if isinstance(answer, Rejected):
                    return TrialVerdict(refusal=answer.reason)
                opened[role] = answer
            return _raced(opened, tools, self.budget_s)
        finally:
            for pool in pools.values():
                pool.close_all()

    def _request(self, folder: BundleFolder, tuning: ModelTuning) -> SelectionRequest:
        return SelectionRequest(
            folder=folder, device=self.device, budget_cpus=self.device.cpu.budget_cpus or 1.0,
            affinity=tuning.cpus if tuning.cpus is not None else self.affinity, max_drop=MAX_DROP,
        )  # fmt: skip


def _first(pool: TrialPool, entrant: Entrant, *, reopen: bool) -> Opened | Rejected:
    for answer in pool.open_each([entrant], at_once=1, reopen=reopen, give_up_at=math.inf):
        if isinstance(answer, Rejected) and answer.ended_from_outside:
            raise TrialError(answer.reason, is_evidence=False)
        return answer
    raise TrialError("the trial gave no answer", is_evidence=False)


def _raced(opened: dict[str, Opened], tools: SelectionTools, budget_s: float) -> TrialVerdict:
    """Rounds until the noise is overcome, where the new one promises something: MAX_HEATS times the budget at most."""
    rounds: dict[str, dict[int, list[float]]] = {role: {} for role in opened}
    for heat in range(MAX_HEATS):
        for role, more in _heat(opened, tools, budget_s).items():
            rounds[role].update({heat * ROUNDS + number: samples for number, samples in more.items()})
        bounds = ratio_bounds(rounds[NEW], rounds[OLD], 0.9, seed=tools.seed)
        if bounds.ratio > LEAST_GAIN or not bounds.low < 1.0 <= bounds.high:
            break
    numbers = common_rounds(list(rounds.values()))
    p90_ms = {
        role: quantile([value for number in numbers for value in series[number]], 0.9) / 1000
        for role, series in rounds.items()
    }
    return TrialVerdict(
        ratio=bounds.ratio, low=bounds.low, high=bounds.high, new_ms=p90_ms[NEW], old_ms=p90_ms[OLD],
        new_mb=opened[NEW].lane.peak_rss_mb, old_mb=opened[OLD].lane.peak_rss_mb,
    )  # fmt: skip


def _heat(
    opened: dict[str, Opened], tools: SelectionTools, budget_s: float
) -> dict[str, dict[int, list[float]]]:  # fmt: skip
    """Samples in microseconds by role and round. Raises TrialError when one of them fails."""
    contenders = {role: Contender(_InRole(role, one.lane), one.result.typical_us) for role, one in opened.items()}
    plan = RacePlan(deadline=tools.clock() + budget_s, slice_s=SLICE_S, min_count=1, max_count=64,
                    min_rounds=LEAST_ROUNDS, max_rounds=ROUNDS, halve=False, seed=tools.seed)  # fmt: skip
    outcome = run_race(list(contenders.values()), plan, tools.clock)
    if outcome.failed:
        raise next(iter(outcome.failed.values()))
    return {role: contender.rounds for role, contender in contenders.items()}


class _InRole:
    """A lane under the name of its role: two tunings of one model may have the same words."""

    def __init__(self, name: str, lane: LiveLane | ReopenedLane) -> None:
        self.name = name
        self._lane = lane

    def run(self, count: int, warm: int) -> list[float]:
        return self._lane.run(count, warm)

    def settle(self) -> None:
        self._lane.settle()
