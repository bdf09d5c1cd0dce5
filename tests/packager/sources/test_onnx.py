from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from edge_contracts.tensor_signature import TensorSpec
from packager.errors import ModelRefused
from packager.source import read_source
from tests.packager.models import gemm, save

INPUTS = Path(__file__).parents[1] / "inputs"

REFUSED = {
    "C01_ir_too_new.onnx": r"IR version 99 needs an onnxruntime newer than any known here",
    "C01_opset_too_new.onnx": r"opset 99 needs an onnxruntime newer",
    "C03_external_missing/m.onnx": r"tensor 'W': its data file 'm\.onnx\.data' is missing",
    "C05_nan_inf_weights.onnx": r"tensor 'W': 1 NaN, 1 Inf",
    "C09_duplicate_initializer.onnx": r"initializer 'W' appears twice",
    "C09_duplicate_output_name.onnx": r"value 'y' is produced by two nodes",
    "C13_external_absolute.onnx": r"tensor 'W': external data at '/etc/passwd' is outside the model's folder",
    "C13_external_traversal.onnx": r"tensor 'W': external data at '\.\./.*' is outside the model's folder",
    "C13_external_length_too_long.onnx": r"tensor 'W': bytes 0 to 1000000000000 of 'm\.data', which has 32",
    "C15_git_lfs_pointer.onnx": r"is a Git LFS pointer, not a model",
    "C15_html_as_model.onnx": r"is an HTML page, not a model",
    "C15_html_as_model.tflite": r"is an HTML page, not a model",
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_bad_model_is_refused_in_one_line_that_names_the_fault(name: str) -> None:
    with pytest.raises(ModelRefused, match=REFUSED[name]) as raised:
        read_source(INPUTS / name)
    assert "\n" not in str(raised.value)
    assert name in str(raised.value)


def test_a_good_model_is_described_with_its_symbolic_dimensions() -> None:
    source = read_source(INPUTS / "ok_gemm_dynamic_batch.onnx")
    assert source.signature.inputs == [TensorSpec(name="x", dtype="FP32", shape=["N", 8])]
    assert source.signature.outputs == [TensorSpec(name="y", dtype="FP32", shape=["N", 4])]
    assert (source.opset, source.ir_version, source.operators) == (13, 8, ["Gemm"])
    assert source.weight_bytes == 144


def test_external_data_belongs_to_the_model_and_to_its_digest(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(INPUTS / "C03_external", tmp_path / "moved"))
    source = read_source(folder / "m.onnx")
    assert [file.name for file in source.files] == ["m.onnx", "m.onnx.data"]
    data = folder / "m.onnx.data"
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")
    assert read_source(folder / "m.onnx").digest != source.digest


def test_external_data_behind_a_link_is_not_opened(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(INPUTS / "C03_external", tmp_path / "model"))
    outside = tmp_path / "outside.data"
    (folder / "m.onnx.data").rename(outside)
    (folder / "m.onnx.data").symlink_to(outside)
    with pytest.raises(ModelRefused, match="goes through a link; not opened"):
        read_source(folder / "m.onnx")


def test_external_data_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(INPUTS / "C03_external", tmp_path / "model"))
    data = folder / "m.onnx.data"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ModelRefused, match="which has 100: cut short"):
        read_source(folder / "m.onnx")


@pytest.mark.parametrize("keep", [0, 1, 30, 150])
def test_a_file_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    content = (INPUTS / "ok_gemm_dynamic_batch.onnx").read_bytes()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(content[:keep])
    with pytest.raises(ModelRefused, match=r"cut short|empty|no ONNX model|not valid"):
        read_source(cut)


def test_an_infinity_that_is_a_mask_is_no_damage(tmp_path: Path) -> None:
    model = gemm()
    mask = onnx.helper.make_tensor("mask", onnx.TensorProto.FLOAT, [1, 4], [0.0, float("-inf"), 0.0, 0.0])
    model.graph.initializer.append(mask)
    model.graph.node[0].output[0] = "scores"
    model.graph.node.append(onnx.helper.make_node("Add", ["scores", "mask"], ["y"]))
    assert read_source(save(model, tmp_path)).operators == ["Add", "Gemm"]


def test_two_unnamed_dimensions_are_not_said_to_be_equal(tmp_path: Path) -> None:
    model = gemm()
    for dim in (
        model.graph.input[0].type.tensor_type.shape.dim[0],
        model.graph.output[0].type.tensor_type.shape.dim[0],
    ):
        dim.dim_param = "?"
    signature = read_source(save(model, tmp_path)).signature
    assert signature.inputs[0].shape[0] != signature.outputs[0].shape[0]


def test_an_output_that_is_no_tensor_is_refused_by_name(tmp_path: Path) -> None:
    model = gemm()
    element = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    model.graph.node.append(onnx.helper.make_node("SequenceConstruct", ["y"], ["all"]))
    model.graph.output.append(onnx.helper.make_value_info("all", onnx.helper.make_sequence_type_proto(element)))
    with pytest.raises(ModelRefused, match="output 'all' is a sequence; only tensors"):
        read_source(save(model, tmp_path))


def test_an_unknown_operator_is_refused_by_name(tmp_path: Path) -> None:
    model = gemm()
    model.graph.node[0].op_type = "Gem"
    with pytest.raises(ModelRefused, match="Gem"):
        read_source(save(model, tmp_path))


def test_a_path_that_does_not_exist_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="no such file"):
        read_source(tmp_path / "none.onnx")
    with pytest.raises(ModelRefused, match="is a folder"):
        read_source(tmp_path)
