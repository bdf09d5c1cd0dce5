"""What to try when an int8 variant fails its gate: pure.

First the other ways of taking activation ranges; then, with the best of those, the layers that lost most stay float:
one, two, four ... up to the recipe's budget, in the order of their measured sensitivity. How many attempts there are at
most follows from the size of the graph, never from a clock: the same model gives the same bundle on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_contracts.parity import Verdict

Tried = tuple[dict[str, str], Verdict, list[str]]
"""Options, the verdict, and the ranking of layers if that was asked for."""

RANGES: dict[str, tuple[dict[str, str], ...]] = {
    "onnx_int8_static": ({"method": "percentile"}, {"method": "entropy"}),
    "openvino_int8": ({"ranges": "percentile"}, {"bias": "accurate"}),
}
RANKS_LAYERS = {"onnx_int8_static"}
MAX_NODE_ATTEMPTS = 1000
"""Repairs times nodes of the graph: an attempt calibrates every tensor anew, so its time grows with both."""
MIN_REPAIRS = 2
"""The ways of taking ranges are tried on a graph of any size."""


@dataclass(frozen=True)
class Repair:
    """Options of the next attempt, and what it is in words."""

    options: dict[str, str]
    words: str


def max_repairs(nodes: int) -> int:
    """How many repairs a graph of that many nodes is worth; 0 nodes means that their number is not known."""
    return max(MIN_REPAIRS, MAX_NODE_ATTEMPTS // max(nodes, 1))


def repairs(converter: str, max_float_layers: int, limit: int) -> Callable[[Sequence[Tried]], Repair | None]:
    """The plan for a converter: what was tried so far -> what to try next, None when there is nothing left.

    ``limit`` is the largest number of repairs; layers are not ranked where no repair is left to use the ranking.
    """

    def plan(tried: Sequence[Tried]) -> Repair | None:
        left = limit - (len(tried) - 1)
        if left < 1:
            return None
        ranges = RANGES.get(converter, ())
        if len(tried) <= len(ranges):
            options = ranges[len(tried) - 1]
            return Repair(options, ", ".join(f"{key} {value}" for key, value in options.items()))
        if converter not in RANKS_LAYERS or max_float_layers < 1:
            return None
        return _fewer_layers(tried, max_float_layers, left)

    return plan


def _fewer_layers(tried: Sequence[Tried], max_float_layers: int, left: int) -> Repair | None:
    best = min(tried, key=_loss)[0]
    ranking = next((found for _, _, found in reversed(tried) if found), None)
    if ranking is None:
        if left < 2 or any("rank" in options for options, _, _ in tried):
            return None
        return Repair({**best, "rank": "yes"}, "to find the layers that lose most")
    kept = max((len(options.get("keep_float", "").split("\n")) for options, _, _ in tried if options.get("keep_float")),
               default=0)  # fmt: skip
    budget = min(max_float_layers, len(ranking))
    if kept >= budget:
        return None
    count = min(budget, max(1, kept * 2))
    options = {key: value for key, value in best.items() if key not in ("rank", "keep_float")}
    layers = ranking[:count]
    return Repair(
        {**options, "keep_float": "\n".join(layers)}, f"with {count} of the layers in float: {', '.join(layers)}"
    )


def _loss(tried: Tried) -> tuple[float, float]:
    accuracy = tried[1].accuracy
    return accuracy.drop, 1.0 - (accuracy.cosine if accuracy.cosine is not None else 0.0)
