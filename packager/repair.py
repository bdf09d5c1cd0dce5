"""What to try when an int8 variant fails its gate: pure.

First the other ways of taking activation ranges; then, with the best of those, the layers that lost most stay float:
one, two, four ... up to the recipe's budget, in the order of their measured sensitivity.
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


@dataclass(frozen=True)
class Repair:
    """Options of the next attempt, and what it is in words."""

    options: dict[str, str]
    words: str


def repairs(converter: str, max_float_layers: int) -> Callable[[Sequence[Tried]], Repair | None]:
    """The plan for a converter: what was tried so far -> what to try next, None when there is nothing left."""

    def plan(tried: Sequence[Tried]) -> Repair | None:
        ranges = RANGES.get(converter, ())
        if len(tried) <= len(ranges):
            options = ranges[len(tried) - 1]
            return Repair(options, ", ".join(f"{key} {value}" for key, value in options.items()))
        if converter not in RANKS_LAYERS or max_float_layers < 1:
            return None
        return _fewer_layers(tried, max_float_layers)

    return plan


def _fewer_layers(tried: Sequence[Tried], max_float_layers: int) -> Repair | None:
    best = min(tried, key=_loss)[0]
    ranking = next((found for _, _, found in reversed(tried) if found), None)
    if ranking is None:
        if any("rank" in options for options, _, _ in tried):
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
