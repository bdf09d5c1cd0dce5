"""The bars that the benchmarks are held to, and whether figures meet them: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BEHIND = 1.03
MAX_DROP = 0.01
P50_AGAINST_DEFAULT = {("resnet50", "idle"): 5.0}
P99_AGAINST_DEFAULT = {("mobilenet-v3-large", "busy"): 2.3, ("efficientdet-d0", "busy"): 3.1}


@dataclass(frozen=True)
class Bar:
    """``got`` against ``wanted``, in words."""

    what: str
    wanted: str
    got: str
    met: bool

    def text(self) -> str:
        """One line."""
        return f"{'met    ' if self.met else 'NOT MET'} {self.what}: {self.got} (bar: {self.wanted})"


def choice_bars(model: str, load: str, trained: bool, one: Mapping[str, Any]) -> list[Bar]:
    """For the outcome of one model under one load."""
    bars = []
    for other in ("oracle", "tuned"):
        pair = one["pairs"][f"choice/{other}"]
        p90 = pair["p90"]
        got = "the same one" if pair["same"] else f"{p90['ratio']:.3f} ({p90['low']:.3f} to {p90['high']:.3f})"
        noise = "" if pair["same"] or p90["ratio"] <= BEHIND or p90["low"] > BEHIND else ", undecided within the noise"
        bars.append(Bar(f"{model}, {load}: p90 of the choice over p90 of {other}", f"at most {BEHIND}", got + noise,
                        pair["same"] or p90["ratio"] <= BEHIND))  # fmt: skip
    for quantile, table in (("p50", P50_AGAINST_DEFAULT), ("p99", P99_AGAINST_DEFAULT)):
        if (model, load) in table:
            ratio, wanted = against_default(one, quantile), table[model, load]
            bars.append(Bar(f"{model}, {load}: {quantile} against ONNX Runtime default", f"at least {wanted}x",
                            f"{ratio:.2f}x", ratio >= wanted))  # fmt: skip
    if trained and one["accuracy"] is not None:
        drop = one["accuracy"]["drop"]
        bars.append(Bar(f"{model}, {load}: loss of {one['accuracy']['metric']}", f"at most {MAX_DROP}", f"{drop:.4f}",
                        drop <= MAX_DROP))  # fmt: skip
    return bars


def against_default(one: Mapping[str, Any], quantile: str) -> float:
    """How many times faster the choice is than ONNX Runtime's default."""
    figures = one["figures"]
    return float(figures["default"][quantile]) / float(figures["choice"][quantile])
