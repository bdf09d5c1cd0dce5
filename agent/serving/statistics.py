"""Counters and latency sketches of one model version, by stage.

Stages of a request, in microseconds: ``queue`` from parsed to the start in the engine, ``input`` parsing and building
arrays, ``infer`` the runtime, ``output`` taking outputs apart and formatting, ``total`` from whole request to answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency

STAGES = ("queue", "input", "infer", "output", "total")


@dataclass
class ModelStatistics:
    """``total_us`` and the counters only grow (for /metrics and /stats); the sketches start anew at each ``drain``."""

    name: str
    version: str
    digest: str
    successes: int = 0
    failures: int = 0
    rows: int = 0
    executions: float = 0.0
    crashes: int = 0
    last_success_ms: int = 0
    total_us: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    failed_us: float = 0.0
    _sketches: dict[str, LatencySketch] = field(default_factory=lambda: {stage: LatencySketch() for stage in STAGES})
    _drained: tuple[int, int] = (0, 0)

    def succeeded(self, stages_us: tuple[float, float, float, float, float], rows: int, batch: int) -> None:
        """One answered request; ``batch`` requests ran together with it."""
        self.successes += 1
        self.rows += rows
        self.executions += 1 / batch
        for stage, latency_us in zip(STAGES, stages_us, strict=True):
            self.total_us[stage] += latency_us
            self._sketches[stage].add(latency_us)

    def failed(self, total_us: float) -> None:
        """One request that the engine failed or that timed out."""
        self.failures += 1
        self.failed_us += total_us

    def drain(self) -> StageLatency | None:
        """Latency since the last call; None when there was no request."""
        requests, errors = self.successes + self.failures - sum(self._drained), self.failures - self._drained[1]
        if not requests:
            return None
        stages = {stage: sketch.to_data() for stage, sketch in self._sketches.items() if sketch.count}
        self._sketches = {stage: LatencySketch() for stage in STAGES}
        self._drained = (self.successes, self.failures)
        return StageLatency(version=self.version, digest=self.digest, stages=stages, requests=requests, errors=errors)
