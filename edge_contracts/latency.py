"""A mergeable latency sketch: counts in logarithmic buckets of base 2^(1/16), so any quantile is within 2.2 %.

Source: DDSketch (Masson, Rim, Lee, VLDB 2019) for the idea of relative-error buckets; the base is ours, so that a
device sends at most a few hundred bytes a minute. Merging adds counts: exact, in any order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

BUCKETS_PER_DOUBLING = 16
SMALLEST_US = 1.0


class SketchData(msgspec.Struct, frozen=True, kw_only=True):
    """The sketch on the wire: bucket number to count (JSON object keys are strings), sum in microseconds."""

    buckets: dict[str, int]
    sum_us: float = 0.0


class LatencySketch:
    """Latencies in microseconds. Values under 1 us fall into bucket 0. Not thread-safe: one writer at a time."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._sum_us = 0.0

    def add(self, latency_us: float, count: int = 1) -> None:
        """Count one latency (``count`` times)."""
        bucket = _bucket(latency_us)
        self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._sum_us += latency_us * count

    def add_all(self, latencies_us: Sequence[float]) -> None:
        """Count many; the same as ``add`` for each, at a fraction of the cost."""
        for bucket, count in Counter(map(_bucket, latencies_us)).items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._sum_us += sum(latencies_us)

    @property
    def count(self) -> int:
        """Number of latencies added."""
        return sum(self._counts.values())

    @property
    def sum_us(self) -> float:
        """Exact sum of the latencies added."""
        return self._sum_us

    def merge(self, other: LatencySketch) -> None:
        """Add all of ``other``; the result is as if its values had been added here."""
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._sum_us += other._sum_us

    def quantile_us(self, fraction: float) -> float | None:
        """The latency at ``fraction`` (0..1) by the nearest-rank rule, within 2.2 %; None when empty."""
        total = self.count
        if total == 0:
            return None
        rank = max(1, math.ceil(fraction * total))
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return _middle_us(bucket)
        return None

    def to_data(self) -> SketchData:
        """For the wire."""
        buckets = {str(bucket): count for bucket, count in sorted(self._counts.items())}
        return SketchData(buckets=buckets, sum_us=round(self._sum_us, 3))

    @classmethod
    def from_data(cls, data: SketchData) -> LatencySketch:
        """From the wire; buckets that are no number or counts that are not positive are skipped."""
        sketch = cls()
        for key, count in data.buckets.items():
            if key.isascii() and key.isdigit() and len(key) <= 4 and count > 0:
                sketch._counts[int(key)] = sketch._counts.get(int(key), 0) + count
        sketch._sum_us = data.sum_us
        return sketch


def merged(sketches: Iterable[LatencySketch]) -> LatencySketch:
    """All of them in one new sketch."""
    total = LatencySketch()
    for sketch in sketches:
        total.merge(sketch)
    return total


def _bucket(latency_us: float) -> int:
    if latency_us <= SMALLEST_US:
        return 0
    return min(9999, math.ceil(math.log2(latency_us) * BUCKETS_PER_DOUBLING))


def _middle_us(bucket: int) -> float:
    """The point with equal relative error to both ends of ``(2^((b-1)/16), 2^(b/16)]``."""
    if bucket == 0:
        return SMALLEST_US
    return float(2.0 ** ((bucket - 0.5) / BUCKETS_PER_DOUBLING))
