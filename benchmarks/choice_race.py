"""One model under one load: what the product chooses, then everything that could have been chosen in one race.

Every entrant (variant x backend x options) is opened in a trial process of its own and judged on the goldens; all that
pass are raced in interleaved rounds with nobody dropped. Those in reach of the first places, the product's choice and
ONNX Runtime go on to the long run. Who is best is read from its odd rounds, the figures from its even rounds: else the
best of many would look better than it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.config import load_config
from agent.device_facts import DeviceFacts
from agent.errors import TrialError
from agent.hardware.budget import threads_of
from agent.inference.bundle_folder import BundleFolder, lay_out
from agent.inference.lookup import backend
from agent.selection.candidates import Entrant, default_baseline, entrants, is_baseline_variant
from agent.selection.lanes import LiveLane
from agent.selection.race import Contender, RacePlan, run_race
from agent.selection.request import TrialLimits
from agent.selection.statistics import Rounds, quantile, ratio_bounds
from agent.selection.trial_process import TrialProcess, start_trial
from agent.selection.trial_protocol import Phase, TrialRequest, TrialResult
from edge_contracts.archive import open_bundle

FOREVER = float("inf")
FIRST_SLICE_S, LONG_SLICE_S = 0.05, 0.08
AT_ONCE = 2
IN_REACH = 5
DEFAULT = "default"


@dataclass(frozen=True)
class Effort:
    """bench_s: the product's own budget. first_rounds: of all entrants. long_rounds: of those in reach."""

    bench_s: float = 30.0
    first_rounds: int = 5
    long_rounds: int = 40


@dataclass(frozen=True)
class Ready:
    """A live trial that answered right."""

    entrant: Entrant
    trial: TrialProcess
    result: TrialResult


@dataclass
class Outcome:
    """figures: role ("choice", "default", "tuned", "oracle", "float": the best without int8) to its numbers. pairs:
    "choice/tuned" and "choice/oracle" to p90 and p50 ratios with bounds. field_ms: all in the first race, as figures.
    refused: name to reason."""

    bench: dict[str, Any]
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    pairs: dict[str, dict[str, Any]] = field(default_factory=dict)
    field_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    accuracy: dict[str, Any] | None = None


def products_choice(bundle: Path, budget_s: float, data: Path) -> dict[str, Any]:
    """``mindie bench``, as a user calls it, and its JSON document. Raises subprocess.CalledProcessError."""
    command = [sys.executable, "-m", "agent", "bench", str(bundle), "--json", "--budget-s", str(budget_s),
               "--data", str(data), "--allow-unsigned"]  # fmt: skip
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def run_one(bundle: Path, max_drop: float, effort: Effort) -> Outcome:
    """Under whatever load there is."""
    with tempfile.TemporaryDirectory(prefix="benchmark-choice-") as text:
        work = Path(text)
        outcome = Outcome(products_choice(bundle, effort.bench_s, work / "data"))
        folder = lay_out(open_bundle(bundle), work / "bundle")
        ready = _open_all(folder, max_drop, work, outcome)
        try:
            _race(ready, outcome, effort)
        finally:
            for one in ready.values():
                one.trial.close(1.0)
        return outcome


def _open_all(folder: BundleFolder, max_drop: float, work: Path, outcome: Outcome) -> dict[str, Ready]:
    """Every entrant that answers the goldens right, and ONNX Runtime as it comes."""
    device = DeviceFacts(load_config(_no_arguments(work), os.environ).data_dir)()
    found, refused = entrants(folder, device, threads_of(device.cpu.budget_cpus or 1.0), backend)
    outcome.refused.update({line.name: line.reason or "" for line in refused})
    default = default_baseline(found, backend)
    wanted = {entrant.name: entrant for entrant in found} | ({DEFAULT: default} if default else {})
    ready: dict[str, Ready] = {}
    waiting: deque[tuple[str, Entrant, TrialProcess]] = deque()
    for number, (name, entrant) in enumerate(wanted.items()):
        waiting.append((name, entrant, _start(folder, entrant, max_drop, work, number)))
        if len(waiting) == AT_ONCE:
            _await(*waiting.popleft(), ready, outcome)
    for one in waiting:
        _await(*one, ready, outcome)
    return ready


def _await(name: str, entrant: Entrant, trial: TrialProcess, ready: dict[str, Ready], outcome: Outcome) -> None:
    try:
        result = trial.wait_ready(120.0)
    except TrialError as error:
        outcome.refused[name] = error.reason
        return
    if result.phase is Phase.READY:
        ready[name] = Ready(entrant, trial, result)
    else:
        outcome.refused[name] = result.reason


def _no_arguments(work: Path) -> Any:
    import argparse

    return argparse.Namespace(data=work / "data", config=None, json=False)


def _start(folder: BundleFolder, entrant: Entrant, max_drop: float, work: Path, number: int) -> TrialProcess:
    request = TrialRequest(
        folder=str(folder.folder), variant=entrant.variant.name, options=dict(entrant.options), parent_pid=os.getpid(),
        result_file=str(work / f"{number}.result.json"), max_drop=max_drop, cache_dir=str(work / "compiled"),
    )  # fmt: skip
    return start_trial(request, work / f"{number}.json", is_canceled=lambda: False)


def _race(ready: Mapping[str, Ready], outcome: Outcome, effort: Effort) -> None:
    chosen = outcome.bench["choice"]
    choice = next((name for name, one in ready.items() if name != DEFAULT and _is(one.entrant, chosen)), None)
    if choice is None or DEFAULT not in ready:
        raise SystemExit(f"the product's choice or the default could not be opened again: {outcome.refused}")
    first = _rounds(ready, list(ready), effort.first_rounds, FIRST_SLICE_S)
    outcome.field_ms = {name: _figures(rounds, list(rounds)) for name, rounds in first.items()}
    by_speed = sorted(first, key=lambda name: outcome.field_ms[name]["p90"])
    plain = [name for name in by_speed if is_baseline_variant(ready[name].entrant.variant)]
    exact = [name for name in by_speed if ready[name].entrant.precision != "int8"]
    finalists = dict.fromkeys([choice, DEFAULT, *by_speed[:IN_REACH], *plain[:2], *exact[:2]])
    long = _rounds(ready, list(finalists), effort.long_rounds, LONG_SLICE_S)
    odd, even = [n for n in range(effort.long_rounds) if n % 2], [n for n in range(effort.long_rounds) if n % 2 == 0]

    def best_of(names: Sequence[str]) -> str:
        return min(names, key=lambda name: _figures(long[name], odd)["p90"])

    roles = {"choice": choice, DEFAULT: DEFAULT, "tuned": best_of([n for n in long if n in plain]),
             "oracle": best_of(list(long)), "float": best_of([n for n in long if n in exact])}  # fmt: skip
    for role, name in roles.items():
        result = ready[name].result
        cosine = result.accuracy.cosine if result.accuracy else None
        outcome.figures[role] = {"name": name, **_figures(long[name], even), "peak_rss_mb": result.peak_rss_mb,
                                 "cosine": cosine}  # fmt: skip
    for other in ("tuned", "oracle"):
        outcome.pairs[f"choice/{other}"] = _pair(long[choice], long[roles[other]], even, roles[other] == choice)
    accuracy = ready[choice].result.accuracy
    outcome.accuracy = None if accuracy is None else {
        "metric": accuracy.metric, "value": accuracy.value, "drop": accuracy.drop, "cosine": accuracy.cosine,
        "max_abs_error": accuracy.max_abs_error, "samples": accuracy.samples,
    }  # fmt: skip


def _is(entrant: Entrant, choice: Mapping[str, Any]) -> bool:
    return entrant.variant.name == choice["variant"] and dict(entrant.options) == dict(choice["options"])


def _rounds(ready: Mapping[str, Ready], names: Sequence[str], rounds: int, slice_s: float) -> dict[str, Rounds]:
    """Interleaved rounds of ``names``. Who fails in it is left out."""
    limits = TrialLimits(run_s=120.0)
    contenders = [Contender(LiveLane(name, ready[name].trial, limits), ready[name].result.typical_us) for name in names]
    plan = RacePlan(FOREVER, slice_s=slice_s, min_count=3, max_rounds=rounds, halve=False)
    outcome = run_race(contenders, plan, lambda: 0.0)
    return {one.lane.name: one.rounds for one in contenders if one.lane.name not in outcome.failed}


def _figures(rounds: Rounds, numbers: Sequence[int]) -> dict[str, float]:
    """Milliseconds."""
    samples = [value / 1e3 for number in numbers for value in rounds[number]]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {**{name: round(quantile(samples, share), 4) for name, share in shares.items()}, "samples": len(samples)}


def _pair(choice: Rounds, other: Rounds, numbers: Sequence[int], same: bool) -> dict[str, Any]:
    """choice / other: 1.03 means the choice takes 3 % longer."""
    mine, theirs = ({n: rounds[n] for n in numbers} for rounds in (choice, other))
    answer: dict[str, Any] = {"same": same}
    for name, share in (("p50", 0.5), ("p90", 0.9)):
        bounds = ratio_bounds(mine, theirs, share)
        answer[name] = {"low": round(bounds.low, 3), "ratio": round(bounds.ratio, 3), "high": round(bounds.high, 3)}
    return answer
