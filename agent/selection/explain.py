"""A choice in plain words, for ``mindie explain`` and the end of ``mindie bench``: pure."""

from __future__ import annotations

from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence, Latency

_BASELINE_WORDS = {
    "onnxruntime-default": "ONNX Runtime with default options",
    "onnxruntime-tuned": "ONNX Runtime tuned (threads, spinning)",
}
_HEADS = {
    "raced": "measured to the end, not the best",
    "halved": "dropped during the race",
    "not_tried": "not tried",
    "refused": "refused",
    "quarantined": "in quarantine on this device",
}


def explain(evidence: ChoiceEvidence) -> str:
    """Several lines without a final line break: the choice, why, how fast beside ONNX Runtime, and all the others."""
    lines = [*_choice(evidence), *_speed(evidence)]
    for status, head in _HEADS.items():
        others = [line for line in evidence.candidates if line.status == status]
        if others:
            lines += ["", f"{head[0].upper()}{head[1:]}:", *(_candidate(line) for line in others)]
    return "\n".join(lines)


def _choice(evidence: ChoiceEvidence) -> list[str]:
    chosen = evidence.chosen
    if not chosen.variant:
        return [f"Nothing was chosen: {evidence.why}"]
    options = ", ".join(f"{key} {_value(value)}" for key, value in sorted(chosen.options.items()))
    version = f" {chosen.runtime_version}" if chosen.runtime_version else ""
    lines = [
        f"Chosen: {chosen.variant} ({chosen.runtime}{version}, {chosen.precision}, {chosen.target})",
        f"  with {options or 'the runtime as it comes'}; in effect: {chosen.provider or 'unknown'}",
        f"Why: {evidence.why}",
    ]
    if chosen.accuracy is not None:
        accuracy = chosen.accuracy
        lines.append(f"Right on this chip: {accuracy.metric} {accuracy.value:.4f} on {accuracy.samples} goldens "
                     f"(source model: {accuracy.source_value:.4f})")  # fmt: skip
    if chosen.peak_rss_mb is not None:
        lines.append(f"Memory: {chosen.peak_rss_mb:.0f} MB at most, runtime included")
    budget = f", {evidence.budget_cpus:g} CPUs" if evidence.budget_cpus is not None else ""
    source = "from an earlier race under the same conditions" if evidence.from_cache else "measured here"
    lines.append(f"How: {source}; objective {evidence.objective}{budget}, {evidence.rounds} interleaved rounds "
                 f"in {evidence.seconds:.1f} s")  # fmt: skip
    return lines


def _speed(evidence: ChoiceEvidence) -> list[str]:
    latency = evidence.chosen.latency
    if latency is None:
        return []
    lines = [f"Speed: {_latency(latency)}"]
    for name, baseline in sorted(evidence.baselines.items()):
        ratio = f", {baseline.p50_ms / latency.p50_ms:.2f} times the chosen one's p50" if latency.p50_ms > 0 else ""
        lines.append(f"  {_BASELINE_WORDS.get(name, name)}: {_latency(baseline)}{ratio}")
    if not evidence.baselines:
        lines.append("  no comparison: ONNX Runtime or the plain ONNX file is not here")
    return lines


def _candidate(line: CandidateEvidence) -> str:
    speed = f" [{_latency(line.latency)}]" if line.latency is not None else ""
    return f"  {line.name}{speed}: {line.reason or 'no reason recorded'}"


def _latency(latency: Latency) -> str:
    tail = f", p99 {latency.p99_ms:.3f}" if latency.p99_ms is not None else ""
    return f"p50 {latency.p50_ms:.3f} ms, p90 {latency.p90_ms:.3f}{tail}"


def _value(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
