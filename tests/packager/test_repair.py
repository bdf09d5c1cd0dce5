from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_contracts.bundle import Accuracy
from edge_contracts.parity import Verdict
from packager.pipeline import BuildRequest, BuildTools, build
from packager.recipe import Recipe, Route
from packager.repair import Tried, max_repairs, repairs
from tests.packager.models import save

INT8 = Route("onnxruntime", "int8", "cpu", "onnx_int8_static")


def failed(options: dict[str, str], drop: float, ranking: list[str] | None = None) -> Tried:
    accuracy = Accuracy(metric="agreement", value=1 - drop, source_value=1.0, drop=drop, cosine=1 - drop)
    return options, Verdict(accuracy, False, "too far"), ranking or []


def test_ranges_are_tried_first_then_layers_stay_float_one_two_four() -> None:
    plan = repairs("onnx_int8_static", 4, 6)
    tried = [failed({}, 0.5)]
    seen: list[dict[str, str]] = []
    drops = iter([0.2, 0.3, 0.2, 0.1, 0.1, 0.1])
    while (repair := plan(tried)) is not None:
        seen.append(repair.options)
        ranking = ["a", "b", "c", "d", "e"] if "rank" in repair.options else None
        tried.append(failed(repair.options, next(drops), ranking))
    assert seen == [
        {"method": "percentile"},
        {"method": "entropy"},
        {"method": "percentile", "rank": "yes"},
        {"method": "percentile", "keep_float": "a"},
        {"method": "percentile", "keep_float": "a\nb"},
        {"method": "percentile", "keep_float": "a\nb\nc\nd"},
    ]


def test_a_budget_of_no_layers_tries_ranges_only() -> None:
    plan = repairs("onnx_int8_static", 0, 6)
    assert plan([failed({}, 0.5), failed({"method": "percentile"}, 0.5), failed({"method": "entropy"}, 0.5)]) is None


def test_a_large_graph_gets_fewer_repairs_and_a_graph_of_any_size_the_ways_of_taking_ranges() -> None:
    assert [max_repairs(nodes) for nodes in (0, 10, 100, 250, 330, 100_000)] == [1000, 100, 10, 4, 3, 2]


def test_layers_are_not_ranked_when_no_repair_is_left_to_use_the_ranking() -> None:
    tried = [failed({}, 0.5), failed({"method": "percentile"}, 0.4), failed({"method": "entropy"}, 0.5)]
    assert repairs("onnx_int8_static", 4, 2)(tried) is None
    assert repairs("onnx_int8_static", 4, 3)(tried) is None
    assert repairs("onnx_int8_static", 4, 4)(tried) is not None


@pytest.mark.parametrize("limit", range(8))
def test_there_are_never_more_repairs_than_the_limit(limit: int) -> None:
    plan = repairs("onnx_int8_static", 4, limit)
    tried = [failed({}, 0.5)]
    while (repair := plan(tried)) is not None:
        tried.append(failed(repair.options, 0.4, ["a", "b", "c", "d"] if "rank" in repair.options else None))
    assert len(tried) - 1 <= limit


def test_what_is_no_int8_converter_is_not_repaired() -> None:
    assert repairs("onnx_fp32", 4, 6)([failed({}, 0.5)]) is None


SPREAD = np.concatenate([np.full(4, 4000.0), np.ones(12)]).astype(np.float32)


def sensitive_model() -> onnx.ModelProto:
    """Inputs of very unlike sizes that the first layer makes equal: one scale for all of them loses the small ones."""
    rng = np.random.default_rng(5)
    first = rng.normal(size=(16, 16)).astype(np.float32) / SPREAD[:, None]
    second = rng.normal(size=(16, 6)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "first"], ["h"], name="sensitive"),
            helper.make_node("Relu", ["h"], ["r"], name="relu"),
            helper.make_node("MatMul", ["r", "second"], ["y"], name="robust"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def run(folder: Path, **recipe: Any) -> Any:
    np.savez(folder / "c.npz", x=(np.random.default_rng(2).normal(size=(64, 16)) * SPREAD).astype(np.float32))
    wanted = BuildRequest(
        model=save(sensitive_model(), folder), output=folder / "o.mindie", name="m", version="1.0.0",
        recipe=Recipe(variants=(Route("onnxruntime", "fp32", "cpu", "stub"), INT8), **recipe),
        calibration=folder / "c.npz", goldens=folder / "c.npz",
    )  # fmt: skip
    work = folder / "work"
    work.mkdir()
    return build(wanted, BuildTools(work, os.environ, lambda _t: None, cpus=2))


def test_a_model_that_int8_breaks_passes_with_its_sensitive_layers_in_float(tmp_path: Path) -> None:
    result = run(tmp_path, max_drop=0.03)
    outcome = result.outcomes[1]
    assert outcome.tried[0].startswith("as it is: agreement")
    assert outcome.left_out is None, outcome.tried
    assert outcome.spec is not None
    assert any("1 of the layers in float: sensitive" in note for note in outcome.spec.notes)
    model = onnx.load(str(outcome.files["model.onnx"]))
    assert any(node.op_type == "DequantizeLinear" for node in model.graph.node)


def test_without_a_budget_it_is_left_out_and_the_report_says_what_was_tried(tmp_path: Path) -> None:
    result = run(tmp_path, max_drop=0.03, max_float_layers=0)
    outcome = result.outcomes[1]
    assert outcome.left_out is not None
    assert outcome.left_out.reason.endswith("2 repairs did not help")
    assert [line.partition(":")[0] for line in outcome.tried] == ["as it is", "{'method'", "{'method'"]


def test_a_recipe_may_forbid_repairs(tmp_path: Path) -> None:
    outcome = run(tmp_path, max_drop=0.03, max_repairs=0).outcomes[1]
    assert outcome.left_out is not None
    assert "repairs" not in outcome.left_out.reason
    assert outcome.tried == []


def test_openvino_int8_takes_every_repair_that_is_planned_for_it(tmp_path: Path) -> None:
    pytest.importorskip("nncf")
    from packager.repair import RANGES
    from tests.packager.converters.test_every_converter import run as convert

    for index, options in enumerate(RANGES["openvino_int8"]):
        assert convert("openvino_int8", tmp_path / str(index), **options)[0].entry == "model.xml"
