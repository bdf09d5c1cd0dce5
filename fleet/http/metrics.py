"""Prometheus text format, version 0.0.4. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Metric:
    """``kind`` is "gauge" or "counter"; one value for each set of labels."""

    name: str
    kind: str
    text: str
    values: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)


def single(name: str, kind: str, text: str, value: float) -> Metric:
    """A metric without labels."""
    return Metric(name, kind, text, {(): value})


def render(metrics: Iterable[Metric]) -> str:
    """The whole page."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [f"{metric.name}{_labels(labels)} {value:g}" for labels, value in sorted(metric.values.items())]
    return "\n".join(lines) + "\n"


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
