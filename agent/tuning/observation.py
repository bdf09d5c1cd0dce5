"""What tuning sees of the machine and of its models over one interval. Values only; None means unknown, never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from edge_contracts.latency import LatencySketch, merged


@dataclass(frozen=True)
class ModelLoad:
    """One model over the interval. ``total``: arrival to answer; read only. ``infer_ms``: mean time in the runtime."""

    requests: int = 0
    queued: int = 0
    total: LatencySketch = field(default_factory=LatencySketch)
    infer_ms: float | None = None

    def quantile_ms(self, fraction: float) -> float | None:
        """p50, p95, p99 ... of the requests answered in the interval; None when there were none."""
        value_us = self.total.quantile_us(fraction)
        return None if value_us is None else value_us / 1000


@dataclass(frozen=True)
class Observation:
    """One interval of ``span_s`` seconds that ended at ``at_s`` (monotonic).

    pressure_pct, group_pressure_pct: share of the interval in which some task waited for a CPU (PSI), on the machine
    and in our control group. running: tasks that run or wait right now. other_cpus, own_cpus: CPUs' worth of time on
    our CPUs that others and we took; busy_by_others: the same by CPU, where it is known. quota_cpus: the control
    group's limit; held_back: share of the interval for which it held us back. temp_margin_c: degrees left to the trip
    point of the hottest zone. ``disturbed``: we ourselves measured or swapped meanwhile, so latencies say little.
    """

    at_s: float
    span_s: float
    pressure_pct: float | None = None
    group_pressure_pct: float | None = None
    running: int | None = None
    load_1m: float | None = None
    other_cpus: float | None = None
    own_cpus: float | None = None
    busy_by_others: Mapping[int, float] = field(default_factory=dict)
    quota_cpus: float | None = None
    nr_throttled: int | None = None
    held_back: float | None = None
    temp_c: float | None = None
    temp_margin_c: float | None = None
    throttled: bool | None = None
    throttle_reasons: tuple[str, ...] = ()
    memory_available_mb: int | None = None
    models: Mapping[str, ModelLoad] = field(default_factory=dict)
    disturbed: bool = False

    def load(self, model: str) -> ModelLoad:
        """Of that model; an empty one when it had no request."""
        return self.models.get(model, ModelLoad())

    def arrival_per_s(self, model: str) -> float:
        """Requests answered per second."""
        return self.load(model).requests / self.span_s if self.span_s > 0 else 0.0


def total_sketch(history: Iterable[Observation], model: str) -> LatencySketch:
    """The latency of a model over several intervals."""
    return merged(observation.load(model).total for observation in history)


def mean_arrival_per_s(history: Iterable[Observation], model: str) -> float:
    """Over several intervals."""
    seen = list(history)
    span_s = sum(observation.span_s for observation in seen)
    return sum(observation.load(model).requests for observation in seen) / span_s if span_s > 0 else 0.0


def demand_cpus(history: Iterable[Observation], model: str) -> float:
    """Seconds in the runtime per second: arrival times cost. 0 for a model that had no request."""
    seen = list(history)
    span_s = sum(observation.span_s for observation in seen)
    busy_ms = sum(o.load(model).requests * (o.load(model).infer_ms or 0.0) for o in seen)
    return busy_ms / 1000 / span_s if span_s > 0 else 0.0
