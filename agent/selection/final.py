"""What the final interleaved run of the winner and the baselines says: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.selection.candidates import DEFAULT_BASELINE, TUNED_BASELINE
from agent.selection.halving import EQUAL_WITHIN
from agent.selection.statistics import RatioBounds
from edge_contracts.evidence import Latency


@dataclass(frozen=True)
class Final:
    """Latencies of one run. latency: the winner's. baselines: by name.

    tuned, tuned_latency: the raced entrant behind the tuned baseline. against_tuned: the winner's ratio to it; None
    when the winner is that entrant, or there is none.
    """

    latency: Latency
    baselines: Mapping[str, Latency]
    tuned: str | None = None
    tuned_latency: Latency | None = None
    against_tuned: RatioBounds | None = None


def best_of_tuned(baselines: Mapping[str, Latency]) -> dict[str, Latency]:
    """Who tunes keeps the default where no other setting is better (or time had no room for the better ones)."""
    default, tuned = baselines.get(DEFAULT_BASELINE), baselines.get(TUNED_BASELINE)
    if default is None or tuned is None or tuned.p90_ms <= default.p90_ms:
        return dict(baselines)
    return {**baselines, TUNED_BASELINE: default}


def overtaken(final: Final, objective: str) -> bool:
    """Whether tuned ONNX Runtime is surely over 1 % faster than the winner. Speed does not overrule memory."""
    if objective == "memory" or final.against_tuned is None or final.tuned is None or final.tuned_latency is None:
        return False
    return final.against_tuned.low > 1.0 + EQUAL_WITHIN
