from __future__ import annotations

from dataclasses import replace

from agent.selection.final import Final, best_of_tuned, overtaken
from agent.selection.statistics import RatioBounds
from edge_contracts.evidence import Latency


def latency(p90_ms: float) -> Latency:
    return Latency(p50_ms=p90_ms * 0.9, p90_ms=p90_ms)


FINAL = Final(latency(2.0), {}, "onnxruntime-fp32-cpu t1", latency(1.8), RatioBounds(1.05, 1.11, 1.2))


def test_tuning_keeps_the_default_where_nothing_else_is_better() -> None:
    worse = {"onnxruntime-default": latency(1.0), "onnxruntime-tuned": latency(2.0)}
    assert best_of_tuned(worse)["onnxruntime-tuned"] == latency(1.0)
    better = {"onnxruntime-default": latency(2.0), "onnxruntime-tuned": latency(1.0)}
    assert best_of_tuned(better) == better
    assert best_of_tuned({}) == {}


def test_a_winner_that_tuned_onnx_runtime_surely_beats_is_overtaken() -> None:
    assert overtaken(FINAL, "latency")
    assert not overtaken(replace(FINAL, against_tuned=RatioBounds(0.99, 1.11, 1.3)), "latency")
    assert not overtaken(replace(FINAL, against_tuned=None), "latency")


def test_speed_does_not_overrule_memory() -> None:
    assert not overtaken(FINAL, "memory")
