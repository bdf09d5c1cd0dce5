"""Counters and latency sketches of one model version, by stage.

Stages of a request, in microseconds: ``queue`` from parsed to the start in the engine, ``input`` parsing and building
arrays, ``infer`` the runtime, ``output`` taking outputs apart and formatting, ``total`` from whole request to answer.
"""

from __future__ import annotations

from collections.abc import Callable

from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency

STAGES = ("queue", "input", "infer", "output", "total")
_FOLD_AT = 512

StagesUs = tuple[float, float, float, float, float]


class ModelStatistics:
    """The counters only grow (for /metrics and /stats); the sketches start anew at each ``drain``.

    Latencies are kept as they come and counted by the hundreds: a request pays for one append. ``now_ms``: Unix time.
    """

    def __init__(self, name: str, version: str, digest: str, now_ms: Callable[[], int]) -> None:
        self.name = name
        self.version = version
        self.digest = digest
        self.failures = 0
        self.failed_us = 0.0
        self.rows = 0
        self.executions = 0.0
        self.crashes = 0
        self.last_success_ms = 0
        self._now_ms = now_ms
        self._folded = 0
        self._fresh: list[StagesUs] = []
        self._total_us = dict.fromkeys(STAGES, 0.0)
        self._sketches = {stage: LatencySketch() for stage in STAGES}
        self._drained = (0, 0)

    @property
    def successes(self) -> int:
        """Requests answered."""
        return self._folded + len(self._fresh)

    @property
    def total_us(self) -> dict[str, float]:
        """Sum by stage over all answered requests."""
        self._fold()
        return self._total_us

    def succeeded(self, stages_us: StagesUs, rows: int, batch: int) -> None:
        """One answered request; ``batch`` requests ran together with it."""
        self._fresh.append(stages_us)
        self.rows += rows
        self.executions += 1 / batch
        if len(self._fresh) >= _FOLD_AT:
            self._fold()

    def failed(self, total_us: float) -> None:
        """One request that the engine failed or that timed out."""
        self.failures += 1
        self.failed_us += total_us

    def drain(self) -> StageLatency | None:
        """Latency since the last call; None when there was no request."""
        self._fold()
        successes, errors = self._folded - self._drained[0], self.failures - self._drained[1]
        if not successes and not errors:
            return None
        stages = {stage: sketch.to_data() for stage, sketch in self._sketches.items() if sketch.count}
        self._sketches = {stage: LatencySketch() for stage in STAGES}
        self._drained = (self._folded, self.failures)
        return StageLatency(
            version=self.version, digest=self.digest, stages=stages, requests=successes + errors, errors=errors
        )

    def _fold(self) -> None:
        if not self._fresh:
            return
        self._folded += len(self._fresh)
        self.last_success_ms = self._now_ms()
        for stage, latencies_us in zip(STAGES, zip(*self._fresh, strict=True), strict=True):
            self._total_us[stage] += sum(latencies_us)
            self._sketches[stage].add_all(latencies_us)
        self._fresh.clear()
