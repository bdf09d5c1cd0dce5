from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from edge_contracts.latency import LatencySketch, SketchData, merged

LATENCIES = st.lists(st.floats(1.0, 1e8), min_size=1, max_size=200)


def sketch_of(values: list[float]) -> LatencySketch:
    sketch = LatencySketch()
    for value in values:
        sketch.add(value)
    return sketch


@given(LATENCIES, st.floats(0.0, 1.0))
def test_every_quantile_is_within_2_point_2_percent_of_the_exact_one(values: list[float], fraction: float) -> None:
    exact = sorted(values)[max(1, math.ceil(fraction * len(values))) - 1]
    estimate = sketch_of(values).quantile_us(fraction)
    assert estimate is not None
    assert abs(estimate - exact) <= 0.0222 * exact


@given(LATENCIES, LATENCIES)
def test_a_merged_sketch_is_the_sketch_of_all_values(left: list[float], right: list[float]) -> None:
    both = merged([sketch_of(left), sketch_of(right)]).to_data()
    at_once = sketch_of(left + right).to_data()
    assert both.buckets == at_once.buckets
    assert math.isclose(both.sum_us, at_once.sum_us, rel_tol=1e-6, abs_tol=0.01)


@given(LATENCIES)
def test_a_sketch_survives_the_wire(values: list[float]) -> None:
    sketch = sketch_of(values)
    data = msgspec.json.decode(msgspec.json.encode(sketch.to_data()), type=SketchData)
    assert LatencySketch.from_data(data).quantile_us(0.9) == sketch.quantile_us(0.9)


def test_an_empty_sketch_has_no_quantiles() -> None:
    assert LatencySketch().quantile_us(0.5) is None


def test_foreign_bucket_names_and_counts_are_skipped() -> None:
    data = SketchData(buckets={"x": 3, "-1": 2, "10": -5, "16": 1, "99999": 1, "²": 1, "٣": 1})
    assert LatencySketch.from_data(data).count == 1
