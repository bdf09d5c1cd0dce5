from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert")

from edge_contracts.archive import open_bundle
from edge_contracts.tensor_signature import TensorSpec
from packager.errors import ModelRefused
from packager.pipeline import BuildRequest, BuildTools, build
from packager.source import read_source
from packager.sources.tflite import plain_name
from tests.packager.tflite_models import affine


def test_a_model_is_described_in_plain_names(tmp_path: Path) -> None:
    source = read_source(affine(tmp_path))
    assert source.signature.inputs == [TensorSpec(name="x", dtype="FP32", shape=[1, 3])]
    assert source.signature.outputs == [TensorSpec(name="y", dtype="FP32", shape=[1, 2])]
    assert source.file_names == {"x": "serving_default_x:0"}
    assert (source.precision, source.stateful, source.operators) == ("fp32", False, ["FULLY_CONNECTED"])


def test_it_is_packed_as_it_is_and_for_openvino(tmp_path: Path) -> None:
    model, out = affine(tmp_path), tmp_path / "o.mindie"
    work = tmp_path / "work"
    work.mkdir()
    request = BuildRequest(model=model, output=out, name="m", version="1.0.0")
    build(request, BuildTools(work, os.environ, lambda _t: None))
    variants = {variant.name: variant.spec for variant in open_bundle(out).bundle.variants}
    assert "tflite-fp32-cpu" in variants
    binding = variants["tflite-fp32-cpu"].inputs[0]
    assert (binding.name, binding.source_name, binding.permutation) == ("x", "serving_default_x:0", None)


@pytest.mark.parametrize("keep", [8, 20, 60, 150])
def test_a_file_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    model = affine(tmp_path)
    cut = tmp_path / "cut.tflite"
    cut.write_bytes(model.read_bytes()[:keep])
    with pytest.raises(ModelRefused, match=r"cut short|no TFLite model|schema version|has no graph"):
        read_source(cut)


def test_nan_among_the_weights_is_counted(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"tensor 'w': 2 NaN"):
        read_source(affine(tmp_path, nans=2))


def test_a_file_of_another_kind_under_that_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x08\x08\x12\x04abcdefgh")
    with pytest.raises(ModelRefused, match="is no TFLite model"):
        read_source(path)


def test_converters_decoration_is_taken_off_names() -> None:
    assert plain_name("serving_default_input_audio:0") == "input_audio"
    assert plain_name("StatefulPartitionedCall:2") == "StatefulPartitionedCall"
    assert plain_name("image") == "image"
