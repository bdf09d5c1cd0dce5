from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edge_contracts.golden import decode_goldens
from packager import goldens
from packager.errors import ModelRefused
from packager.isolated_run import ModelRunner
from packager.reference import ask
from packager.source import read_source
from tests.packager.models import gemm, save


@pytest.fixture
def runner(tmp_path: Path) -> ModelRunner:
    return ModelRunner(tmp_path, os.environ, lambda _line: None)


def seeded(path: Path, runner: ModelRunner, examples: Any = ()) -> Any:
    source = read_source(path)
    return goldens.seeded_rows(source, source.signature, runner, examples)


def test_seeded_goldens_are_the_same_each_time_and_differ_among_themselves(tmp_path: Path, runner: ModelRunner) -> None:
    path = save(gemm(), tmp_path)
    first, notes = seeded(path, runner)
    second, _ = seeded(path, runner)
    assert len(first) == goldens.MIN_GOLDENS
    assert notes == []
    assert [row["x"].tolist() for row in first] == [row["x"].tolist() for row in second]
    assert len({row["x"].tobytes() for row in first}) == len(first)


def test_an_open_length_is_tried_until_the_model_takes_it(tmp_path: Path, runner: ModelRunner) -> None:
    """A reshape to pieces of 160 refuses every length that is no multiple of it."""
    h, types = onnx.helper, onnx.TensorProto
    graph = h.make_graph(
        [h.make_node("Reshape", ["x", "shape"], ["p"]), h.make_node("ReduceSum", ["p", "axes"], ["y"], keepdims=0)],
        "g",
        [h.make_tensor_value_info("x", types.FLOAT, ["batch", "length"])],
        [h.make_tensor_value_info("y", types.FLOAT, ["pieces"])],
        [h.make_tensor("shape", types.INT64, [2], [-1, 160]), h.make_tensor("axes", types.INT64, [1], [1])],
    )
    path = save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), tmp_path)
    rows, _ = seeded(path, runner)
    assert rows[0]["x"].shape[1] % 160 == 0


def test_calibration_lends_its_shape_and_range_and_none_of_its_values(tmp_path: Path, runner: ModelRunner) -> None:
    example = {"x": np.linspace(5.0, 7.0, 8, dtype=np.float32).reshape(1, 8)}
    rows, _ = seeded(save(gemm(), tmp_path), runner, [example])
    drawn = np.concatenate([row["x"] for row in rows])
    assert drawn.min() >= 5.0
    assert drawn.max() <= 7.0
    assert not np.isin(example["x"][0, 1:-1], drawn).any()


def test_a_model_that_takes_nothing_is_refused_with_what_it_said(tmp_path: Path, runner: ModelRunner) -> None:
    model = gemm()
    model.graph.node.insert(0, onnx.helper.make_node("Reshape", ["x", "shape"], ["r"]))
    model.graph.node[1].input[0] = "r"
    model.graph.initializer.append(onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [7, 8]))
    with pytest.raises(ModelRefused, match=r"give --golden F\.npz \(the first said: .*Reshape"):
        seeded(save(model, tmp_path), runner)


def test_the_blob_holds_requests_and_the_sources_answers(tmp_path: Path, runner: ModelRunner) -> None:
    path = save(gemm(), tmp_path)
    source = read_source(path)
    rows, _ = seeded(path, runner)
    reference = ask(source, source.signature, runner, rows, None)
    blob, count = goldens.encode("m", reference)
    decoded = decode_goldens(blob)
    assert count == len(decoded) == len(rows)
    assert [tensor.name for tensor in decoded[0].outputs] == ["y"]
    assert bytes(decoded[3].inputs[0].data) == rows[3]["x"].tobytes()


def test_the_source_is_asked_for_two_samples_at_once(tmp_path: Path, runner: ModelRunner) -> None:
    path = save(gemm(), tmp_path)
    source = read_source(path)
    rows, _ = seeded(path, runner)
    reference = ask(source, source.signature, runner, rows, None)
    assert reference.batch_axis == "N"
    assert reference.batched is not None
    np.testing.assert_allclose(reference.batched[1]["y"][1:2], reference.answers[1]["y"], rtol=1e-5)
