"""Who is out of the race, and when it is decided: pure.

Successive halving with a confidence rule: at a rung only contenders of the worse half may go, and only those that are
behind the leader beyond the noise. The margin that must be exceeded shrinks from rung to rung, since three rounds know
less of the noise than twenty-four.

Source for the halving: K. Jamieson, A. Talwalkar, Non-stochastic best arm identification (AISTATS 2016); the confidence
rule is added, so that noise never drops a contender that may be the best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.selection.slower import slower
from agent.selection.statistics import RatioBounds, Rounds, common_rounds, pooled, ratio_bounds, statistic

MARGIN_AT_RUNG = {3: 1.25, 6: 1.10, 12: 1.03, 24: 1.01, 48: 1.01, 96: 1.01}
"""Rounds done to the ratio that the lower bound must exceed."""
EQUAL_WITHIN = 0.01


@dataclass(frozen=True)
class Standing:
    """``score``: the statistic in microseconds over the rounds that all share. ``behind``: score / leader's score."""

    name: str
    score: float
    behind: RatioBounds


def standings(series: Mapping[str, Rounds], fraction: float | None, *, seed: int = 0) -> list[Standing]:
    """Best first, over the rounds that all of ``series`` (not empty, at least one round in common) share."""
    numbers = common_rounds(list(series.values()))
    if not numbers:
        raise ValueError("the contenders share no round")
    shared = {name: {number: rounds[number] for number in numbers} for name, rounds in series.items()}
    scores = {name: statistic(pooled(rounds, numbers), fraction) for name, rounds in shared.items()}
    order = sorted(scores, key=lambda name: (scores[name], name))
    leader = shared[order[0]]
    same = RatioBounds(1.0, 1.0, 1.0)
    return [
        Standing(name, scores[name], same if place == 0 else ratio_bounds(shared[name], leader, fraction, seed=seed))
        for place, name in enumerate(order)
    ]


def to_drop(table: list[Standing], rounds_done: int) -> list[Standing]:
    """Of ``table`` (best first) those that go at this rung; empty between rungs."""
    margin = MARGIN_AT_RUNG.get(rounds_done)
    if margin is None:
        return []
    worse_half = table[max(1, (len(table) + 1) // 2) :]
    return [standing for standing in worse_half if standing.behind.low > margin]


def is_decided(table: list[Standing]) -> bool:
    """Nobody left to beat, or all others surely within 1 % of the leader or surely behind it."""
    return all(
        standing.behind.low > 1.0 + EQUAL_WITHIN
        or (standing.behind.high < 1.0 + EQUAL_WITHIN and standing.behind.low > 1.0 - EQUAL_WITHIN)
        for standing in table[1:]
    )


def drop_text(standing: Standing, leader: Standing, rounds_done: int) -> str:
    """Why it went, in plain words."""
    return (
        f"{slower(standing.behind.ratio, leader.name)} after {rounds_done} rounds "
        f"(at least {slower(standing.behind.low)} with 95 % confidence)"
    )


def fewest_threads(table: list[Standing], threads: Mapping[str, int], within: float = EQUAL_WITHIN) -> Standing:
    """Among those within ``within`` of the best score the one with the fewest threads; the better score breaks ties.

    One that the race could not tell from the best counts too, up to twice that distance. 0 threads means "left to the
    runtime" and counts as more than any number.
    """
    best = table[0].score

    def is_near(standing: Standing) -> bool:
        reach = 2 * within if standing.behind.low <= 1.0 else within
        return standing.score <= best * (1.0 + reach)

    near = [standing for standing in table if is_near(standing)]
    return min(near, key=lambda standing: (threads.get(standing.name) or 10**6, standing.score))
