"""A machine with other processes that come and go, and models that are served on it: time, queues and trials, no clock.

It is what agent.tuning sees of the world (Eye, TunedServing, Trial, Clock) with a truth that tests can ask for: the
time of one inference under any tuning. The law of that time (Amdahl, the slowest thread ends each parallel part):

    work * ((1 - parallel) + parallel / threads * slowest + sync * (threads - 1)) * spinning

``slowest`` is 2 or 3 when a thread shares its CPU with another process. Spinning gains a little on a free machine and
costs much on a contended one. Everything is drawn from seeded generators: equal arguments give equal histories.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.selection.statistics import quantile, ratio_bounds
from agent.tuning.judgement import TrialVerdict
from agent.tuning.model_tuning import CPUS, SPINNING, THREADS, ModelTuning
from agent.tuning.observation import ModelLoad, Observation
from agent.tuning.seams import TunedModel
from edge_contracts.latency import LatencySketch

SYNC = 0.02
SHARED, SHARED_AT_BARRIER = 2.0, 3.0
"""A thread that shares its CPU; one for which others wait loses its place again and again (1.3-3.8 was measured)."""
TRIAL_S = 3.0
MAX_QUEUE = 256


@dataclass(frozen=True)
class Hog:
    """Another process that takes ``cpus`` CPUs (the first ones of the machine) from ``from_s`` until ``until_s``."""

    from_s: float
    until_s: float
    cpus: float = 1.0


@dataclass
class SimulatedModel:
    """One model, first in first out. ``spin_gain``: factor of spinning on a free machine."""

    name: str
    home: ModelTuning
    work_ms: float = 20.0
    parallel: float = 0.8
    rate_per_s: float = 12.0
    spin_gain: float = 0.97
    digest: str = "sha256:1"
    current: ModelTuning = field(init=False)
    free_at_s: float = 0.0
    next_arrival_s: float = 0.0
    waiting: list[float] = field(default_factory=list)
    total: LatencySketch = field(default_factory=LatencySketch)
    requests: int = 0
    infer_us: float = 0.0

    def __post_init__(self) -> None:
        self.current = self.home


class ContendedMachine:
    """``changes``: (time, model, tuning) as they were applied. ``refuses``: tunings whose session does not open."""

    def __init__(
        self, cpus: int, models: Sequence[SimulatedModel], hogs: Sequence[Hog] = (), *, seed: int = 0,
        noise: float = 0.03,
    ) -> None:  # fmt: skip
        self.cpus = cpus
        self.now_s = 0.0
        self.by_name = {model.name: model for model in models}
        self.hogs = list(hogs)
        self.changes: list[tuple[float, str, ModelTuning]] = []
        self.trials: list[tuple[float, str, ModelTuning]] = []
        self.refuses: set[ModelTuning] = set()
        self.quota_cpus: float | None = None
        self.live_factor: Callable[[ModelTuning], float] = lambda _: 1.0
        self._rng = random.Random(seed)
        self._noise = noise
        self._read_at_s = 0.0

    # the truth ----------------------------------------------------------------------------------------------------

    def taken(self, at_s: float) -> float:
        """CPUs that hogs take then."""
        return min(self.cpus, sum(hog.cpus for hog in self.hogs if hog.from_s <= at_s < hog.until_s))

    def infer_ms(self, model: SimulatedModel, tuning: ModelTuning, at_s: float) -> float:
        """One inference then, without noise."""
        taken = self.taken(at_s)
        allowed = tuning.cpus if tuning.cpus is not None else frozenset(range(self.cpus))
        quiet = [cpu for cpu in allowed if cpu >= math.ceil(taken)]
        threads = tuning.threads
        slowest = 1.0 if threads <= len(quiet) else SHARED if threads == 1 else SHARED_AT_BARRIER
        crowded = max(1.0, threads / len(allowed))
        serial = (1 - model.parallel) * (1.0 if quiet else 2.0)
        spinning = 1.0
        if tuning.spinning is not False and threads > 1:
            spinning = 1.6 if taken > 0 else model.spin_gain
        share = serial + model.parallel / threads * slowest * crowded + SYNC * (threads - 1)
        return model.work_ms * share * spinning

    # the world ----------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let requests come and be answered."""
        end_s = self.now_s + seconds
        for model in self.by_name.values():
            self._serve(model, end_s)
        self.now_s = end_s

    def _serve(self, model: SimulatedModel, end_s: float) -> None:
        while model.rate_per_s > 0 and model.next_arrival_s < end_s:
            if len(model.waiting) < MAX_QUEUE:
                model.waiting.append(model.next_arrival_s)
            model.next_arrival_s += self._rng.expovariate(model.rate_per_s)
        while model.waiting:
            start_s = max(model.waiting[0], model.free_at_s)
            if start_s >= end_s:
                return
            infer_ms = self._noisy(self.infer_ms(model, model.current, start_s)) * self.live_factor(model.current)
            model.free_at_s = start_s + infer_ms / 1000
            model.total.add((model.free_at_s - model.waiting.pop(0)) * 1e6)
            model.requests += 1
            model.infer_us += infer_ms * 1000

    def _noisy(self, value: float) -> float:
        return value * math.exp(self._rng.gauss(0.0, self._noise))

    # what tuning is given -----------------------------------------------------------------------------------------

    def monotonic(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.advance(timeout_s)
        return event.is_set()

    def start(self) -> None:
        self._read_at_s = self.now_s

    def read(self) -> Observation:
        span_s = max(1e-3, self.now_s - self._read_at_s)
        self._read_at_s = self.now_s
        taken = self.taken(self.now_s - span_s / 2)
        loads = {model.name: self._load(model) for model in self.by_name.values()}
        return Observation(
            at_s=self.now_s, span_s=span_s, models=loads, quota_cpus=self.quota_cpus,
            other_cpus=max(0.0, self._rng.gauss(taken, 0.03)),
            busy_by_others={cpu: min(1.0, max(0.0, taken - cpu)) for cpu in range(self.cpus)},
            memory_available_mb=2000,
        )  # fmt: skip

    def _load(self, model: SimulatedModel) -> ModelLoad:
        queued = sum(arrival < self.now_s for arrival in model.waiting)
        load = ModelLoad(
            requests=model.requests, queued=queued, total=model.total,
            infer_ms=model.infer_us / 1000 / model.requests if model.requests else None,
        )  # fmt: skip
        model.requests, model.infer_us, model.total = 0, 0.0, LatencySketch()
        return load

    def models(self) -> list[TunedModel]:
        knobs = frozenset({THREADS, SPINNING, CPUS} if len(self.by_name) == 1 else {THREADS, SPINNING})
        return [TunedModel(m.name, m.digest, m.home, m.current, knobs) for m in self.by_name.values()]

    def apply(self, name: str, digest: str, tuning: ModelTuning) -> None:
        self.by_name[name].current = tuning
        self.changes.append((self.now_s, name, tuning))

    def trial(self, model: TunedModel, new: ModelTuning, is_canceled: Callable[[], bool]) -> TrialVerdict:
        """Interleaved rounds, as loaded as the machine is while they run."""
        self.trials.append((self.now_s, model.name, new))
        if new in self.refuses:
            return TrialVerdict(refusal="the session does not open")
        simulated = self.by_name[model.name]
        rounds: dict[ModelTuning, dict[int, list[float]]] = {new: {}, model.current: {}}
        for number in range(20):
            self.advance(TRIAL_S / 20)
            for tuning, series in rounds.items():
                truth_ms = self.infer_ms(simulated, tuning, self.now_s)
                series[number] = [self._noisy(truth_ms) for _ in range(4)]
        bounds = ratio_bounds(rounds[new], rounds[model.current], 0.9)
        p90 = {tuning: quantile([v for r in series.values() for v in r], 0.9) for tuning, series in rounds.items()}
        return TrialVerdict(bounds.ratio, bounds.low, bounds.high, p90[new], p90[model.current], 100, 100)
