from __future__ import annotations

import random
from dataclasses import replace

from agent.selection.halving import Standing, fewest_threads, is_decided, standings, to_drop
from agent.selection.statistics import RatioBounds


def series(**means: float) -> dict[str, dict[int, list[float]]]:
    rng = random.Random(2)
    return {
        name: {n: [us * rng.uniform(0.98, 1.02) for _ in range(12)] for n in range(12)} for name, us in means.items()
    }


def standing(name: str, score: float, low: float = 1.0, high: float = 1.0) -> Standing:
    return Standing(name, score, RatioBounds(low, (low + high) / 2, high))


def test_the_best_comes_first_and_is_not_behind_itself() -> None:
    table = standings(series(slow=200, fast=100, middle=150), 0.9)
    assert [row.name for row in table] == ["fast", "middle", "slow"]
    assert table[0].behind == RatioBounds(1.0, 1.0, 1.0)
    assert 1.9 < table[2].behind.low < table[2].behind.high < 2.1


def test_scores_are_compared_over_shared_rounds_only() -> None:
    data = series(early=100, late=100)
    data["late"] = {number: samples for number, samples in data["late"].items() if number >= 6}
    data["early"] = {n: ([900.0] * 12 if n < 6 else samples) for n, samples in data["early"].items()}
    table = standings(data, 0.9)
    assert table[1].behind.ratio < 1.05


def test_only_the_worse_half_may_go_at_a_rung_and_nobody_between_rungs() -> None:
    table = standings(series(a=100, b=200, c=300, d=400), 0.9)
    assert [row.name for row in to_drop(table, 6)] == ["c", "d"]
    assert to_drop(table, 7) == []


def test_noise_drops_nobody() -> None:
    table = [standing("a", 100), standing("b", 130, low=0.9, high=1.8)]
    assert to_drop(table, 48) == []


def test_early_rungs_ask_for_a_wider_margin() -> None:
    table = [standing("a", 100), standing("b", 115, low=1.12, high=1.2)]
    assert to_drop(table, 3) == []
    assert [row.name for row in to_drop(table, 6)] == ["b"]


def test_a_race_is_decided_when_all_are_surely_behind_or_surely_equal() -> None:
    assert is_decided([standing("a", 100)])
    assert is_decided([standing("a", 100), standing("b", 110, 1.05, 1.2), standing("c", 100.4, 0.996, 1.008)])
    assert not is_decided([standing("a", 100), standing("b", 103, 0.98, 1.08)])


def test_within_one_percent_the_fewest_threads_win() -> None:
    table = [standing("t4", 100.0), standing("t1", 100.9), standing("t2", 100.5), standing("t1-slow", 102.0)]
    table = [replace(row, behind=RatioBounds(1.005, 1.01, 1.02)) for row in table]
    threads = {"t4": 4, "t1": 1, "t2": 2, "t1-slow": 1}
    assert fewest_threads(table, threads).name == "t1"
    assert fewest_threads([table[0], table[3]], threads).name == "t4"


def test_one_that_cannot_be_told_from_the_best_may_be_two_percent_behind() -> None:
    threads = {"t4": 4, "t1": 1}
    unsure, sure = standing("t1", 101.8, low=0.98, high=1.06), standing("t1", 101.8, low=1.01, high=1.03)
    assert fewest_threads([standing("t4", 100.0), unsure], threads).name == "t1"
    assert fewest_threads([standing("t4", 100.0), sure], threads).name == "t4"


def test_threads_left_to_the_runtime_count_as_many() -> None:
    assert fewest_threads([standing("auto", 100.0), standing("t8", 100.5)], {"auto": 0, "t8": 8}).name == "t8"
