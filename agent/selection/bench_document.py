"""The JSON document of ``mindie bench``: its keys are a contract for programs. Pure."""

from __future__ import annotations

from typing import Any

from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence, Latency


def document(model: str, evidence: ChoiceEvidence) -> dict[str, Any]:
    """``latency_ms`` and ``baselines`` come from one final interleaved run. ``choice`` is null when nothing ran."""
    chosen = evidence.chosen
    return {
        "model": model,
        "choice": _choice(chosen) if chosen.variant else None,
        "why": evidence.why,
        "objective": evidence.objective,
        "budget_cpus": evidence.budget_cpus,
        "latency_ms": _quantiles(chosen.latency),
        "baselines": {name: _quantiles(latency) for name, latency in evidence.baselines.items()},
        "ratio_vs_onnxruntime_default": evidence.ratio_vs_onnxruntime_default,
        "accuracy": _accuracy(chosen),
        "peak_rss_mb": chosen.peak_rss_mb,
        "rounds": evidence.rounds,
        "seconds": evidence.seconds,
        "candidates": [_candidate(line) for line in evidence.candidates],
    }


def _choice(line: CandidateEvidence) -> dict[str, Any]:
    return {
        "variant": line.variant, "runtime": line.runtime, "runtime_version": line.runtime_version,
        "precision": line.precision, "target": line.target, "provider": line.provider, "options": line.options,
    }  # fmt: skip


def _candidate(line: CandidateEvidence) -> dict[str, Any]:
    return {
        "name": line.name, **_choice(line), "status": line.status, "reason": line.reason,
        "latency_ms": _quantiles(line.latency), "accuracy": _accuracy(line), "peak_rss_mb": line.peak_rss_mb,
    }  # fmt: skip


def _quantiles(latency: Latency | None) -> dict[str, Any] | None:
    if latency is None:
        return None
    return {"p50": latency.p50_ms, "p90": latency.p90_ms, "p99": latency.p99_ms, "samples": latency.samples}


def _accuracy(line: CandidateEvidence) -> dict[str, Any] | None:
    accuracy = line.accuracy
    if accuracy is None:
        return None
    return {
        "metric": accuracy.metric, "value": accuracy.value, "source_value": accuracy.source_value,
        "drop": accuracy.drop, "cosine": accuracy.cosine, "samples": accuracy.samples,
    }  # fmt: skip
