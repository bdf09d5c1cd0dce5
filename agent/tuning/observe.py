"""Reads one Observation per interval from the kernel's files and the server's own figures.

A file that is absent or damaged is None in the observation. Cheap enough for a small board: some tens of small files
each interval, no NumPy, no psutil; what needs a vendor's tool (heat) is asked less often.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from agent.hardware.probers import cgroup_limits, cgroup_path
from agent.hardware.probers.memory import MemoryProber
from agent.hardware.probers.thermal import ThermalProber
from agent.hardware.sysfs import Machine
from agent.tuning import kernel_counters, process_tree
from agent.tuning.kernel_counters import CpuTimes, Throttled
from agent.tuning.observation import ModelLoad, Observation
from agent.tuning.process_tree import TreeTimes
from edge_contracts.capabilities import ThermalFacts, ThermalZone
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency

HEAT_EVERY_S = 15.0
TakeLatency = Callable[[], Mapping[str, StageLatency]]
"""Latency by model since the last call. Raises nothing: an empty mapping where the server does not answer."""
Queued = Callable[[], Mapping[str, int]]
"""Requests waiting now, by model."""


@dataclass(frozen=True)
class _Counters:
    """What only grows, at one moment."""

    at_s: float
    cpu: CpuTimes | None
    own: TreeTimes | None
    pressure_us: int | None
    group_pressure_us: int | None
    throttled: Throttled | None


class Observer:
    """``cpus``: those that we may use. ``root_pid``: the process above all of ours. Not thread-safe."""

    def __init__(
        self, machine: Machine, cpus: Iterable[int], root_pid: int, monotonic: Callable[[], float],
        take_latency: TakeLatency, queued: Queued, ticks_per_s: float | None = None,
    ) -> None:  # fmt: skip
        self._machine = machine
        self._cpus = frozenset(cpus)
        self._root_pid = root_pid
        self._monotonic = monotonic
        self._take_latency = take_latency
        self._queued = queued
        self._ticks_per_s = ticks_per_s or os.sysconf("SC_CLK_TCK")
        self._groups: list[str] = []
        self._last: _Counters | None = None
        self._heat: tuple[float, ThermalFacts] | None = None

    def start(self) -> None:
        """The first interval begins now."""
        v2 = cgroup_path.directories(self._machine, cgroup_path.V2)
        self._groups = [*v2, *cgroup_path.directories(self._machine, "cpu")]
        self._last = self._counters()
        self._take_latency()

    def read(self) -> Observation:
        """The interval since the last call."""
        if self._last is None:
            self.start()
        before, after = self._last, self._counters()
        assert before is not None
        self._last = after
        span_s = max(after.at_s - before.at_s, 1e-3)
        others, own = self._shares(before, after, span_s)
        heat = self._thermal(after.at_s)
        zone = _nearest_its_limit(heat.zones)
        machine = self._machine
        return Observation(
            at_s=after.at_s, span_s=span_s,
            pressure_pct=_percent(before.pressure_us, after.pressure_us, span_s),
            group_pressure_pct=_percent(before.group_pressure_us, after.group_pressure_us, span_s),
            running=after.cpu.running if after.cpu else None,
            load_1m=kernel_counters.parse_load_1m(machine.text("proc/loadavg") or ""),
            other_cpus=None if others is None else sum(others.values()), own_cpus=own, busy_by_others=others or {},
            quota_cpus=cgroup_limits.cpu_quota(machine),
            nr_throttled=after.throttled.count if after.throttled else None,
            held_back=_held_back(before.throttled, after.throttled, span_s),
            temp_c=zone.temp_c if zone else None, temp_margin_c=_margin_c(zone) if zone else None,
            throttled=heat.throttled.now if heat.throttled else None,
            throttle_reasons=tuple(heat.throttled.reasons) if heat.throttled else (),
            memory_available_mb=MemoryProber().probe(machine).available_mb,
            models=_loads(self._take_latency(), self._queued()),
        )  # fmt: skip

    def _counters(self) -> _Counters:
        machine = self._machine
        return _Counters(
            self._monotonic(),
            kernel_counters.parse_stat(machine.text("proc/stat") or ""),
            process_tree.read_tree(machine.root / "proc", self._root_pid),
            kernel_counters.parse_pressure_us(machine.text("proc/pressure/cpu") or ""),
            self._first(lambda group: kernel_counters.parse_pressure_us(machine.text(f"{group}/cpu.pressure") or "")),
            self._throttled(),
        )

    def _first(self, read: Callable[[str], int | None]) -> int | None:
        found = (read(group) for group in self._groups)
        return next((value for value in found if value is not None), None)

    def _throttled(self) -> Throttled | None:
        """Of the group that was held back longest: a quota may sit at any level above us."""
        texts = [self._machine.text(f"{group}/cpu.stat") for group in self._groups]
        found = [kernel_counters.parse_cpu_stat(text) for text in texts if text]
        return max((one for one in found if one is not None), key=lambda one: one.time_us, default=None)

    def _shares(
        self, before: _Counters, after: _Counters, span_s: float
    ) -> tuple[dict[int, float] | None, float | None]:  # fmt: skip
        """CPUs' worth that others took, by CPU, and that we took. Our threads are counted where they were last seen;
        the sum is right wherever they were."""
        ticks = span_s * self._ticks_per_s
        own = None
        if before.own is not None and after.own is not None:
            own = max(0, after.own.total_ticks - before.own.total_ticks) / ticks
        if before.cpu is None or after.cpu is None or own is None or before.own is None or after.own is None:
            return None, own
        ours = process_tree.by_cpu(before.own, after.own)
        busy = {
            cpu: max(0, after.cpu.busy_ticks[cpu] - before.cpu.busy_ticks.get(cpu, 0)) / ticks
            for cpu in after.cpu.busy_ticks if cpu in self._cpus
        }  # fmt: skip
        rest = {cpu: min(1.0, max(0.0, share - ours.get(cpu, 0) / ticks)) for cpu, share in busy.items()}
        total, guessed = max(0.0, sum(busy.values()) - own), sum(rest.values())
        factor = min(1.0, total / guessed) if guessed > 0 else 0.0
        return {cpu: share * factor for cpu, share in rest.items()}, own

    def _thermal(self, now_s: float) -> ThermalFacts:
        if self._heat is None or now_s - self._heat[0] >= HEAT_EVERY_S:
            self._heat = (now_s, ThermalProber().probe(self._machine))
        return self._heat[1]


def _percent(before: int | None, after: int | None, span_s: float) -> float | None:
    if before is None or after is None:
        return None
    return min(100.0, max(0, after - before) / span_s / 1e4)


def _held_back(before: Throttled | None, after: Throttled | None, span_s: float) -> float | None:
    if before is None or after is None:
        return None
    return max(0, after.time_us - before.time_us) / 1e6 / span_s


def _nearest_its_limit(zones: Iterable[ThermalZone]) -> ThermalZone | None:
    """The zone with the least room to its trip point; the hottest where none tells one."""
    known = [zone for zone in zones if zone.temp_c is not None]
    limited = [zone for zone in known if _margin_c(zone) is not None]
    if limited:
        return min(limited, key=lambda zone: _margin_c(zone) or 0.0)
    return max(known, key=lambda zone: zone.temp_c or 0.0, default=None)


def _margin_c(zone: ThermalZone) -> float | None:
    limit_c = zone.passive_c if zone.passive_c is not None else zone.critical_c
    return None if limit_c is None or zone.temp_c is None else limit_c - zone.temp_c


def _loads(latency: Mapping[str, StageLatency], queued: Mapping[str, int]) -> dict[str, ModelLoad]:
    return {
        name: _load(latency.get(name), queued.get(name, 0)) for name in sorted(latency.keys() | queued.keys())
    }  # fmt: skip


def _load(latency: StageLatency | None, queued: int) -> ModelLoad:
    if latency is None:
        return ModelLoad(queued=queued)
    infer = latency.stages.get("infer")
    total = latency.stages.get("total")
    count = sum(infer.buckets.values()) if infer is not None else 0
    return ModelLoad(
        requests=latency.requests, queued=queued,
        total=LatencySketch.from_data(total) if total is not None else LatencySketch(),
        infer_ms=infer.sum_us / count / 1000 if infer is not None and count else None,
    )  # fmt: skip
