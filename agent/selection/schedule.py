"""How the time for a choice is spent, and which entrants are tried next: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.selection.candidates import Entrant, is_baseline_variant
from agent.selection.slower import slower
from agent.selection.statistics import RatioBounds

OUT_OF_REACH = 2.2
"""A group whose first entrant is surely this much slower than the leader does not get its other options tried:
threads and spinning gave at most that where it was measured."""
HAND_OVER_US = 150.0
"""What handing work to a second thread and waiting for it may cost per inference: small models lose that, and win it
back with one thread."""
RANK_WEIGHT = 0.1
TUNED_OPTIONS = 5
"""Options of the plain ONNX file that are tried in any case, for the baseline "onnxruntime-tuned"."""


@dataclass(frozen=True)
class Schedule:
    """Moments by the clock: until when trials are opened, races go on, and the final run lasts."""

    open_until: float
    race_until: float
    end: float


def schedule(start: float, budget_s: float) -> Schedule:
    """A fifth of the time is kept for the final run of the chosen one beside the baselines."""
    return Schedule(start + 0.65 * budget_s, start + 0.8 * budget_s, start + budget_s)


@dataclass(frozen=True)
class Expansion:
    """``wanted``: further options worth trying, the best bets first. ``hopeless``: entrants with the reason why not."""

    wanted: list[Entrant]
    hopeless: list[tuple[Entrant, str]]


def expansion(
    rest: Sequence[Entrant], behind: Mapping[tuple[str, str], RatioBounds], lost: Mapping[tuple[str, str], str],
    leader_us: float,
) -> Expansion:  # fmt: skip
    """Decide on the entrants that are no group's first.

    behind: how far each raced group's first entrant is behind the leader, whose time is ``leader_us``. lost: groups
    whose first entrant failed, with the reason.
    """
    reach = OUT_OF_REACH + HAND_OVER_US / max(leader_us, 1.0)
    wanted: list[tuple[float, Entrant]] = []
    hopeless: list[tuple[Entrant, str]] = []
    for entrant in rest:
        bounds = behind.get(entrant.group)
        if bounds is None:
            hopeless.append((entrant, lost.get(entrant.group, "not tried: the time for the race was over")))
            continue
        for_baseline = is_baseline_variant(entrant.variant) and entrant.rank < TUNED_OPTIONS
        if bounds.low > reach and not for_baseline:
            reason = f"not tried: {entrant.variant.name} is {slower(bounds.ratio, 'the leader')}"
            hopeless.append((entrant, reason))
            continue
        wanted.append((bounds.ratio * (1 + RANK_WEIGHT * entrant.rank), entrant))
    wanted.sort(key=lambda item: item[0])
    return Expansion([entrant for _, entrant in wanted], hopeless)
