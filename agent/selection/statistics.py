"""Statistics of latencies in pure Python: quantiles, and bounds on the ratio of two interleaved series.

Series are measured in rounds: in each round every contender ran one slice, one after the other. What disturbs a machine
(another process, heat, frequency) lasts longer than a slice, so samples of one round are alike: bounds are made by
drawing whole rounds, the same rounds for both series.

Sources: B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), chapter 13 (percentile intervals);
H. Künsch, The jackknife and the bootstrap for general stationary observations (1989), for blocks; R. Hyndman, Y. Fan,
Sample quantiles in statistical packages (1996), definition 7, for ``quantile``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

THINNED_TO = 32
RESAMPLES = 200
ONE_SIDED = 0.95
Rounds = Mapping[int, Sequence[float]]
"""Round number to the samples of that round."""


@dataclass(frozen=True)
class RatioBounds:
    """``ratio`` of two statistics with one-sided 95 % bounds: the truth is over ``low`` with 95 %, so for ``high``."""

    low: float
    ratio: float
    high: float


def quantile(values: Sequence[float], fraction: float) -> float:
    """By linear interpolation; ``values`` in any order, not empty; ``fraction`` in 0..1."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def mean(values: Sequence[float]) -> float:
    """Of a sequence that is not empty."""
    return math.fsum(values) / len(values)


def thinned(samples: Sequence[float], count: int = THINNED_TO) -> list[float]:
    """At most ``count`` values with the same distribution: every round weighs alike, and work stays bounded."""
    if len(samples) <= count:
        return list(samples)
    ordered = sorted(samples)
    return [ordered[int((index + 0.5) * len(ordered) / count)] for index in range(count)]


def statistic(samples: Sequence[float], fraction: float | None) -> float:
    """The quantile at ``fraction``, or the mean for None."""
    return mean(samples) if fraction is None else quantile(samples, fraction)


def pooled(rounds: Rounds, numbers: Sequence[int]) -> list[float]:
    """The samples of those rounds, each round thinned to the same size or less."""
    return [value for number in numbers for value in thinned(rounds[number])]


def common_rounds(series: Sequence[Rounds]) -> list[int]:
    """Rounds in which all series have samples."""
    shared = set(series[0]).intersection(*series[1:]) if series else set()
    return sorted(shared)


def ratio_bounds(
    numerator: Rounds, denominator: Rounds, fraction: float | None, *, seed: int = 0, resamples: int = RESAMPLES
) -> RatioBounds:
    """Bounds on statistic(numerator) / statistic(denominator) over the rounds both have; at least one round.

    With fewer than three rounds nothing is known of the noise between rounds: the bounds are 0 and infinity.
    """
    numbers = common_rounds([numerator, denominator])
    if not numbers:
        raise ValueError("the two series share no round")
    point = _ratio(statistic(pooled(numerator, numbers), fraction), statistic(pooled(denominator, numbers), fraction))
    if len(numbers) < 3:
        return RatioBounds(0.0, point, math.inf)
    rng = random.Random(seed)
    above, below = _Resampled(numerator, numbers, fraction), _Resampled(denominator, numbers, fraction)
    ratios = []
    for _ in range(resamples):
        weights = [0] * len(numbers)
        for _ in numbers:
            weights[rng.randrange(len(numbers))] += 1
        ratios.append(_ratio(above.value(weights), below.value(weights)))
    return RatioBounds(quantile(ratios, 1 - ONE_SIDED), point, quantile(ratios, ONE_SIDED))


class _Resampled:
    """One series, prepared so that a statistic under other weights of its rounds costs one walk over its tail."""

    def __init__(self, rounds: Rounds, numbers: Sequence[int], fraction: float | None) -> None:
        self._fraction = fraction
        thin = [thinned(rounds[number]) for number in numbers]
        self._sizes = [len(samples) for samples in thin]
        self._sums = [math.fsum(samples) for samples in thin]
        self._descending = sorted(
            ((value, index) for index, samples in enumerate(thin) for value in samples), reverse=True
        )

    def value(self, weights: Sequence[int]) -> float:
        """The statistic with each round counted ``weights`` times."""
        total = sum(size * weight for size, weight in zip(self._sizes, weights, strict=True))
        if self._fraction is None:
            return sum(s * weight for s, weight in zip(self._sums, weights, strict=True)) / total
        beyond = (1.0 - self._fraction) * total
        seen = 0
        for value, index in self._descending:
            seen += weights[index]
            if seen > beyond:
                return value
        return self._descending[-1][0]


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else (1.0 if above == 0 else math.inf)
