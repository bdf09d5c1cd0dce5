"""Tuning while running, beside a CPU hog that comes and goes: tuned against the static default and the static best.

    python -m benchmarks.tuning [--seconds 60] [--json]

One small convolutional net in ONNX Runtime, three engines of it in processes of their own, run in turns (one at a time,
so that they never disturb one another): with the runtime's default options, with the options that a race on the idle
machine finds best, and with the latter under the tuner. Three tenths of the time the machine is left alone, then a
process of equal priority burns one CPU for four tenths, then it is left alone again. The tuner's trials run beside the
tuned engine while that is measured, as they would in service; the others pause meanwhile.

Ratios above 1 are in favour of the tuned one. "settled" is the second half of a phase, when tuning has come to rest.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.clock import SystemClock
from agent.hardware.probe import probe
from agent.hardware.sysfs import this_machine
from agent.inference.bundle_folder import BundleFolder
from agent.selection.lanes import LiveLane
from agent.selection.request import SelectionTools, TrialLimits
from agent.selection.statistics import quantile
from agent.selection.trial_process import start_trial
from agent.selection.trial_protocol import Phase, TrialRequest
from agent.serving.control import ServedModel
from agent.shadow_trial import ShadowTrials
from agent.tuning.controller_state import Pacing
from agent.tuning.judgement import TrialVerdict
from agent.tuning.model_tuning import CPUS, SPINNING, THREADS, ModelTuning, from_options, to_options
from agent.tuning.observe import Observer
from agent.tuning.seams import Device, TunedModel, TuningEvent
from agent.tuning.tuner import Tuner, TunerParts
from benchmarks.conv_net import conv_net_folder
from edge_contracts.evidence import OptionValue
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency

SLICE_RUNS_MS = 150.0
DEFAULT: dict[str, OptionValue] = {"provider": "CPUExecutionProvider"}
PACING = Pacing(interval_s=1.0, floor_s=4.0, watch_max_s=20.0, min_requests=30)
KNOBS = frozenset({THREADS, SPINNING, CPUS})
LANES = ("default", "best", "tuned")
PHASES = (("idle", 0.3), ("contended", 0.4), ("idle again", 0.3))


class Engines:
    """Trial processes that stand for engines."""

    def __init__(self, folder: BundleFolder, work: Path) -> None:
        self._folder = folder
        self._work = work
        self._numbers = itertools.count()

    def open(self, options: Mapping[str, OptionValue], cpus: frozenset[int] | None = None) -> LiveLane:
        """A warm one with these options."""
        number = next(self._numbers)
        trial = start_trial(
            TrialRequest(
                folder=str(self._folder.folder), variant=self._folder.bundle.variants[0].name, options=dict(options),
                result_file=str(self._work / f"engine{number}.result"), parent_pid=os.getpid(), max_drop=1.0,
                judge=False, affinity=sorted(cpus) if cpus is not None else None,
            ),
            self._work / f"engine{number}.json", is_canceled=lambda: False,
        )  # fmt: skip
        result = trial.wait_ready(60.0)
        if result.phase is not Phase.READY:
            raise SystemExit(f"the engine does not start: {result.reason}")
        return LiveLane(f"engine{number}", trial, TrialLimits())


@dataclass
class TunedEngine:
    """An agent.tuning.seams.TunedServing of one engine, with its latencies."""

    engines: Engines
    home_options: dict[str, OptionValue]
    home: ModelTuning
    lane: LiveLane
    current: ModelTuning
    lock: threading.Lock = field(default_factory=threading.Lock)
    sketch: LatencySketch = field(default_factory=LatencySketch)

    def models(self) -> list[TunedModel]:
        return [TunedModel("conv", "sha256:0", self.home, self.current, KNOBS)]

    def apply(self, name: str, digest: str, tuning: ModelTuning) -> None:
        """Open beside the old one, then swap: as the server does."""
        del name, digest
        lane = self.engines.open(to_options(tuning, self.home_options, KNOBS), tuning.cpus)
        with self.lock:
            old, self.lane, self.current = self.lane, lane, tuning
        old.close()

    def run(self, runs: int) -> list[float]:
        with self.lock:
            times_us = self.lane.run(runs, 0)
            for time_us in times_us:
                self.sketch.add(time_us)
            return times_us

    def take(self) -> dict[str, StageLatency]:
        with self.lock:
            sketch, self.sketch = self.sketch, LatencySketch()
        data = sketch.to_data()
        return {"conv": StageLatency(version="1", digest="d", requests=sketch.count,
                                     stages={"total": data, "infer": data})}  # fmt: skip


@dataclass
class Sample:
    """One inference: in which phase, how far into it (0..1), by which lane, in ms."""

    phase: str
    progress: float
    lane: str
    ms: float


@contextlib.contextmanager
def hog(seconds: float) -> Iterator[None]:
    """A process that burns one CPU and is not ours to the observer: its parent has gone. It ends by itself too."""
    code = f"import time\nend = time.monotonic() + {seconds + 5}\nwhile time.monotonic() < end: pass"
    shell = '"$0" -c "$1" >/dev/null 2>&1 </dev/null & echo $!'
    told = subprocess.run(["sh", "-c", shell, sys.executable, code], stdout=subprocess.PIPE, check=True)
    pid = int(told.stdout)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 15)


def best_when_idle(engines: Engines, threads: int, seconds: float) -> dict[str, OptionValue]:
    """The lowest p90 of thread counts with and without spinning, in turns."""
    sets: list[dict[str, OptionValue]] = [
        {**DEFAULT, "threads": count, "spinning": spin, "execution": "sequential"}
        for count in sorted({1, max(1, threads // 2), threads}) for spin in ((False, True) if count > 1 else (False,))
    ]  # fmt: skip
    lanes = [(options, engines.open(options)) for options in sets]
    times: list[list[float]] = [[] for _ in lanes]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for index, (_, lane) in enumerate(lanes):
            times[index] += lane.run(6, 1)
            lane.settle()
    for _, lane in lanes:
        lane.close()
    return min(zip(sets, times, strict=True), key=lambda pair: quantile(pair[1], 0.9))[0]


def measure(seconds: float, home_threads: int | None, work: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The whole run. ``home_threads``: instead of the race."""
    folder = conv_net_folder(work)
    engines = Engines(folder, work)
    cpus = frozenset(os.sched_getaffinity(0))
    facts = probe(this_machine())
    budget = facts.cpu.budget_cpus or float(len(cpus))
    best: dict[str, OptionValue]
    if home_threads is None:
        best = best_when_idle(engines, max(1, int(budget)), seconds * 0.06)
    else:
        best = {**DEFAULT, "threads": home_threads, "spinning": False, "execution": "sequential"}
    say(f"best when idle: {best}")
    home = from_options(best, None, len(cpus))
    tuned = TunedEngine(engines, best, home, engines.open(best), home)
    fixed = {"default": engines.open(DEFAULT), "best": engines.open(best)}
    served = ServedModel(name="conv", version="1", digest="sha256:0", folder=str(folder.folder),
                         variant=folder.bundle.variants[0].name, options=best)  # fmt: skip
    shadow = ShadowTrials(lambda _: served, facts, None, lambda canceled: _tools(work, canceled), budget_s=3.0)
    measuring = threading.Event()

    def trial(model: TunedModel, new: ModelTuning, is_canceled: Callable[[], bool]) -> TrialVerdict:
        measuring.set()
        try:
            return shadow(model, new, is_canceled)
        finally:
            measuring.clear()

    events: list[str] = []

    def tell(event: TuningEvent) -> None:
        events.append(f"{event.kind}: {event.text}")
        say(events[-1])

    clock = SystemClock()
    eye = Observer(this_machine(), cpus, os.getpid(), clock.monotonic, tuned.take, dict)
    tuner = Tuner(TunerParts(eye=eye, serving=tuned, trial=trial, device=Device(budget, cpus), clock=clock, tell=tell,
                             pacing=PACING))  # fmt: skip
    thread = threading.Thread(target=tuner.run, name="tuning")
    thread.start()
    samples: list[Sample] = []
    try:
        for phase, part in PHASES:
            say(phase)
            with hog(2 * seconds) if phase == "contended" else contextlib.nullcontext():
                samples += _phase(phase, seconds * part, fixed, tuned, measuring)
    finally:
        tuner.stop()
        thread.join()
        for lane in (*fixed.values(), tuned.lane):
            lane.close()
    return report(samples, best, events)


def _phase(
    phase: str, seconds: float, fixed: Mapping[str, LiveLane], tuned: TunedEngine, measuring: threading.Event
) -> list[Sample]:  # fmt: skip
    """Turns of all lanes for ``seconds``; while the tuner measures, of the tuned one alone, which counts as no time
    (twice ``seconds`` in all at most)."""
    begin, spent_s = time.monotonic(), 0.0
    samples: list[Sample] = []
    runs = dict.fromkeys(LANES, 4)
    while (progress := spent_s / seconds) < 1 and time.monotonic() < begin + 2 * seconds:
        turn_began, lanes = time.monotonic(), ("tuned",) if measuring.is_set() else LANES
        for name in lanes:
            times_us = tuned.run(runs[name]) if name == "tuned" else fixed[name].run(runs[name], 0)
            (tuned.lane if name == "tuned" else fixed[name]).settle()
            samples += [Sample(phase, progress, name, time_us / 1000) for time_us in times_us]
            runs[name] = max(2, min(50, int(SLICE_RUNS_MS / (sum(times_us) / len(times_us) / 1000))))
        spent_s += time.monotonic() - turn_began if lanes is LANES else 0.0
    return samples


def _tools(work: Path, is_canceled: Callable[[], bool]) -> SelectionTools:
    return SelectionTools(cache_dir=work / "cache", work_dir=work / "shadow", is_canceled=is_canceled)


def report(samples: list[Sample], best: Mapping[str, OptionValue], events: list[str]) -> dict[str, Any]:
    """Per phase and its settled half: p50, p99 and throughput by lane, and the ratios."""
    document: dict[str, Any] = {"best_when_idle": dict(best), "events": events, "phases": {}}
    for phase, _ in PHASES:
        for label, since in ((phase, 0.0), (f"{phase}, settled", 0.5)):
            lanes = {
                lane: _figures([s.ms for s in samples if (s.phase, s.lane) == (phase, lane) and s.progress >= since])
                for lane in LANES
            }
            tuned = lanes["tuned"]
            ratios = {
                f"{what}_vs_{lane}": round(lanes[lane][what] / tuned[what] if what != "per_s" else
                                           tuned[what] / lanes[lane][what], 3)
                for lane in ("default", "best") for what in ("p50_ms", "p99_ms", "per_s")
            }  # fmt: skip
            document["phases"][label] = {"lanes": lanes, "ratios": ratios}
    return document


def _figures(times_ms: list[float]) -> dict[str, float]:
    if not times_ms:
        raise SystemExit("a lane was never run: give it more --seconds")
    return {
        "p50_ms": round(quantile(times_ms, 0.5), 2), "p99_ms": round(quantile(times_ms, 0.99), 2),
        "per_s": round(1000 * len(times_ms) / sum(times_ms), 1), "runs": len(times_ms),
    }  # fmt: skip


def table(document: dict[str, Any]) -> str:
    """For a person."""
    columns = (*LANES, "default", "best", "default", "best")
    lines = [f"{'':24}{'p99 ms':>30}{'p99 ratio vs':>20}{'throughput vs':>20}",
             f"{'':24}" + "".join(f"{name:>10}" for name in columns)]  # fmt: skip
    for label, phase in document["phases"].items():
        p99 = "".join(f"{phase['lanes'][lane]['p99_ms']:>10.2f}" for lane in LANES)
        names = ("p99_ms_vs_default", "p99_ms_vs_best", "per_s_vs_default", "per_s_vs_best")
        lines.append(f"{label:24}{p99}" + "".join(f"{phase['ratios'][name]:>10.2f}" for name in names))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of measuring (default 60, at least 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    parser.add_argument(
        "--home-threads", type=int, metavar="N",
        help="start from N threads without spinning instead of racing, where the machine is not idle to begin with",
    )  # fmt: skip
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        document = measure(max(20.0, args.seconds), args.home_threads, Path(work),
                           lambda text: print(text, file=sys.stderr, flush=True))  # fmt: skip
    print(json.dumps(document) if args.json else table(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
