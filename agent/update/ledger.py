"""The latency of what serves, drained from the server in one place and read by two: telemetry and probation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import msgspec

from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency

Drained = Mapping[tuple[str, str], StageLatency]
"""(model, version) -> sketches since the last drain."""


class Ledger:
    """Thread-safe. ``drain`` empties the server's own counters."""

    def __init__(self, drain: Callable[[], Drained], observe: Callable[[str, StageLatency], None]) -> None:
        self._drain = drain
        self._observe = observe
        self._lock = threading.Lock()
        self._pending: dict[str, StageLatency] = {}
        self._soak: dict[str, LatencySketch] = {}

    def collect(self) -> None:
        """Take what the server has."""
        for (name, _), latency in self._drain().items():
            if not latency.requests:
                continue
            with self._lock:
                before = self._pending.get(name)
                same = before is not None and before.digest == latency.digest
                self._pending[name] = _added(before, latency) if before is not None and same else latency
                if latency.digest in self._soak:
                    self._soak[latency.digest].merge(total_of(latency))
            self._observe(name, latency)

    def take(self) -> dict[str, StageLatency]:
        """For telemetry: everything since the last take."""
        self.collect()
        with self._lock:
            taken, self._pending = self._pending, {}
        return taken

    def begin_soak(self, digest: str) -> None:
        """Remember the latency of this bundle from now on."""
        self.collect()
        with self._lock:
            self._soak[digest] = LatencySketch()

    def end_soak(self, digest: str) -> LatencySketch:
        """All of it since begin_soak."""
        self.collect()
        with self._lock:
            return self._soak.pop(digest, LatencySketch())


def total_of(latency: StageLatency) -> LatencySketch:
    """From arrival to answer."""
    data = latency.stages.get("total")
    return LatencySketch.from_data(data) if data is not None else LatencySketch()


def _added(old: StageLatency, new: StageLatency) -> StageLatency:
    stages = dict(old.stages)
    for stage, data in new.stages.items():
        sketch = LatencySketch.from_data(data)
        if stage in stages:
            sketch.merge(LatencySketch.from_data(stages[stage]))
        stages[stage] = sketch.to_data()
    return msgspec.structs.replace(
        new, stages=stages, requests=old.requests + new.requests, errors=old.errors + new.errors
    )  # fmt: skip
