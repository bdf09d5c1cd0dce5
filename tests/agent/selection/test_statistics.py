from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.selection.statistics import common_rounds, mean, pooled, quantile, ratio_bounds, thinned

times = st.floats(0.1, 1e6, allow_nan=False)


@given(st.lists(times, min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_lies_between_least_and_greatest(values: list[float], fraction: float) -> None:
    assert min(values) <= quantile(values, fraction) <= max(values) * (1 + 1e-12)


def test_quantiles_of_known_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([0.0, 10.0], 0.9) == 9.0
    assert mean([1.0, 2.0, 6.0]) == 3.0


@given(st.lists(times, min_size=1, max_size=500))
def test_thinning_keeps_the_median_within_the_sample_and_bounds_the_size(values: list[float]) -> None:
    thin = thinned(values)
    assert 1 <= len(thin) <= 32
    assert set(thin) <= set(values)


def test_thinning_keeps_the_distribution() -> None:
    values = [float(i) for i in range(1000)]
    assert abs(quantile(thinned(values), 0.9) - 899) < 32


def test_rounds_weigh_alike_whatever_their_size() -> None:
    rounds = {0: [1.0] * 1000, 1: [3.0] * 32}
    assert mean(pooled(rounds, [0, 1])) == pytest.approx(2.0)


def test_common_rounds_are_those_of_all_series() -> None:
    assert common_rounds([{1: [1.0], 2: [1.0], 3: [1.0]}, {2: [1.0], 3: [1.0]}, {3: [1.0], 2: [1.0]}]) == [2, 3]
    assert common_rounds([]) == []


def test_load_that_hits_whole_rounds_does_not_widen_the_bounds_of_a_ratio() -> None:
    """What interleaving is for: the machine doubles its pace in every other round, the ratio stays known."""
    rng = random.Random(1)
    slow, fast = {}, {}
    for number in range(24):
        load = 2.0 if number % 2 else 1.0
        fast[number] = [load * 100 * rng.uniform(0.97, 1.03) for _ in range(20)]
        slow[number] = [load * 110 * rng.uniform(0.97, 1.03) for _ in range(20)]
    bounds = ratio_bounds(slow, fast, 0.9)
    assert 1.05 < bounds.low <= bounds.ratio <= bounds.high < 1.15


@pytest.mark.parametrize("fraction", [None, 0.5, 0.9])
def test_equal_series_are_rarely_called_different(fraction: float | None) -> None:
    wrong = 0
    for seed in range(60):
        rng = random.Random(seed)
        series = [
            {number: [rng.lognormvariate(4, 0.2) for _ in range(16)] for number in range(12)} for _ in range(2)
        ]  # fmt: skip
        wrong += ratio_bounds(series[0], series[1], fraction, seed=seed).low > 1.0
    assert wrong <= 9  # 5 % expected of a one-sided bound; the percentile bootstrap is a little bold with 12 blocks


def test_under_three_rounds_nothing_is_known_of_the_noise() -> None:
    bounds = ratio_bounds({0: [200.0], 1: [200.0]}, {0: [100.0], 1: [100.0]}, 0.9)
    assert (bounds.low, bounds.ratio, bounds.high) == (0.0, 2.0, math.inf)


def test_series_that_share_no_round_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="share no round"):
        ratio_bounds({0: [1.0]}, {1: [1.0]}, 0.9)


def test_the_same_seed_gives_the_same_bounds() -> None:
    rng = random.Random(5)
    a = {n: [rng.random() for _ in range(9)] for n in range(6)}
    b = {n: [rng.random() for _ in range(9)] for n in range(6)}
    assert ratio_bounds(a, b, 0.9, seed=3) == ratio_bounds(a, b, 0.9, seed=3)
