"""The choice a device made and what it is based on: sent with `reported`, printed by `mindie explain`."""

from __future__ import annotations

import msgspec

from edge_contracts.bundle import Accuracy

OptionValue = int | float | str | bool


class Latency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Milliseconds of one inference as measured on the device, over ``samples`` inferences."""

    p50_ms: float
    p90_ms: float
    p99_ms: float | None = None
    samples: int = 0


class CandidateEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate. status: "chosen", "raced" (measured, not best), "halved" (dropped during the race), "not_tried"
    (never measured; earlier agents said "halved"), "refused" (cannot run here or wrong answers), "quarantined"
    (crashed, hung or ran out of memory). ``reason`` in plain words.
    """

    name: str
    variant: str
    runtime: str
    precision: str
    status: str
    target: str = "cpu"
    reason: str | None = None
    options: dict[str, OptionValue] = {}
    runtime_version: str | None = None
    provider: str | None = None
    latency: Latency | None = None
    accuracy: Accuracy | None = None
    peak_rss_mb: float | None = None


class ChoiceEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The candidate that serves, why, against which baselines ("onnxruntime-default", ...), and all the others.

    ``latency`` and ``baselines`` come from one interleaved run. ``ratio_vs_onnxruntime_default``: baseline p50 divided
    by the chosen one's p50; above 1 means the choice is faster. ``from_cache``: an earlier race with the same
    fingerprint was reused.
    """

    chosen: CandidateEvidence
    why: str
    objective: str = "latency"
    budget_cpus: float | None = None
    fingerprint: str = ""
    baselines: dict[str, Latency] = {}
    ratio_vs_onnxruntime_default: float | None = None
    candidates: list[CandidateEvidence] = []
    rounds: int = 0
    seconds: float = 0.0
    from_cache: bool = False
