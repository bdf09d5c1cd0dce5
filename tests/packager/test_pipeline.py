from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest

from edge_contracts.archive import open_bundle
from edge_contracts.golden import decode_goldens
from packager.build_report import write_report
from packager.errors import ModelRefused, NothingToPack, RecipeRefused, SamplesRefused
from packager.pipeline import BuildRequest, BuildResult, BuildTools, build
from packager.recipe import Recipe, Route
from tests.packager.models import gemm, save

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
STUB = Route("onnxruntime", "fp32", "cpu", "stub")


def run(folder: Path, request: BuildRequest, said: list[str] | None = None) -> BuildResult:
    work = folder / "work"
    work.mkdir(parents=True)
    return build(request, BuildTools(work, os.environ, (said if said is not None else []).append, cpus=2))


def request(folder: Path, model: Path, *routes: Route, **more: Any) -> BuildRequest:
    folder.mkdir(exist_ok=True)
    recipe = Recipe(variants=routes or (STUB,))
    return BuildRequest(model=model, output=folder / "out.mindie", name="m", version="1.0.0", recipe=recipe, **more)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once: everything that needs no toolchain."""
    pytest.importorskip("nncf")
    folder = tmp_path_factory.mktemp("digits")
    wanted = BuildRequest(
        model=DIGITS / "digits.onnx", output=folder / "digits.mindie", name="digits", version="1.0.0",
        calibration=DIGITS / "calibration.npz", goldens=DIGITS / "heldout.npz",
    )  # fmt: skip
    tools = BuildTools(
        folder / "work", {**os.environ, "MINDEDGE_TOOLCHAINS": str(folder / "none")}, lambda _t: None, cpus=2
    )
    tools.work_dir.mkdir()
    write_report(build(wanted, tools), wanted.output)
    return wanted.output


def test_the_digits_become_one_bundle_whose_variants_are_all_right(digits: Path) -> None:
    archive = open_bundle(digits)
    archive.verify()
    variants = {variant.name: variant.spec for variant in archive.bundle.variants}
    assert set(variants) == {
        "onnxruntime-fp32-cpu", "onnxruntime-int8-cpu", "openvino-fp32-cpu", "openvino-int8-cpu",
    }  # fmt: skip
    for spec in variants.values():
        assert spec.accuracy is not None
        assert spec.accuracy.metric == "top1"
        assert spec.accuracy.value >= 0.97
        assert spec.accuracy.samples == 400
    assert variants["onnxruntime-int8-cpu"].size_bytes < variants["onnxruntime-fp32-cpu"].size_bytes / 2
    assert variants["onnxruntime-fp32-cpu"].runtime_versions.minimum == "1.12"
    peak = variants["onnxruntime-fp32-cpu"].peak_memory_bytes
    assert peak is not None
    assert peak > variants["onnxruntime-fp32-cpu"].size_bytes


def test_a_missing_toolchain_leaves_its_variant_out_with_the_line_that_installs_it(digits: Path) -> None:
    (left_out,) = open_bundle(digits).bundle.spec.left_out
    assert left_out.name == "tflite-fp32-cpu"
    assert "mindpack toolchain install tflite" in left_out.reason


def test_goldens_keep_their_labels_and_calibration_does_not_travel(digits: Path) -> None:
    archive = open_bundle(digits)
    spec = archive.bundle.spec
    goldens = decode_goldens(archive.blob(archive.bundle.goldens.digest))
    assert spec.golden_count == len(goldens) == len(spec.golden_labels or []) == 400
    content = digits.read_bytes()
    calibration = np.load(DIGITS / "calibration.npz")["image"]
    held_out = {image.tobytes() for image in np.load(DIGITS / "heldout.npz")["image"]}
    assert not any(image.tobytes() in content for image in calibration if image.tobytes() not in held_out)
    assert spec.lineage.calibration_digest is not None


def test_the_bundle_names_no_path_of_the_machine_and_the_report_tells_the_times(digits: Path) -> None:
    content = digits.read_bytes()
    assert str(DIGITS).encode() not in content
    assert str(digits.parent).encode() not in content
    report = msgspec.json.decode((digits.parent / "digits.report.json").read_bytes())
    assert report["timings_s"]["variants"] > 0
    assert {item["name"] for item in report["variants"]} >= {"onnxruntime-fp32-cpu", "tflite-fp32-cpu"}


def test_the_same_inputs_give_the_same_bytes_in_another_folder_and_time_zone(tmp_path: Path) -> None:
    results = []
    for name, zone in (("a", "UTC"), ("elsewhere", "Asia/Tokyo")):
        model = save(gemm(), tmp_path, f"{name}.onnx")
        wanted = request(tmp_path / name, model, replace(STUB, converter="onnx_fp32"))
        work = tmp_path / name / "work"
        work.mkdir()
        build(wanted, BuildTools(work, {**os.environ, "TZ": zone}, lambda _t: None))
        results.append(wanted.output.read_bytes())
    assert results[0] == results[1]


def test_a_damaged_variant_is_left_out_for_its_numbers(tmp_path: Path) -> None:
    bad = Route("onnxruntime", "int8", "cpu", "stub", {"damage": "yes"})
    wanted = request(tmp_path / "o", DIGITS / "digits.onnx", STUB, bad)
    result = run(tmp_path, wanted)
    (left_out,) = result.spec.left_out
    assert left_out.name == "onnxruntime-int8-cpu"
    assert left_out.reason


def test_a_converter_that_dies_costs_its_variant_and_no_more(tmp_path: Path) -> None:
    dying = Route("onnxruntime", "int8", "cpu", "stub", {"die": "11"})
    result = run(tmp_path, request(tmp_path / "o", save(gemm(), tmp_path), STUB, dying))
    assert [item.reason for item in result.spec.left_out] == ["stub: died (SIGSEGV)"]
    assert [variant.name for variant in open_bundle(tmp_path / "o" / "out.mindie").bundle.variants] == [STUB.name]


def test_static_int8_without_calibration_is_left_out_with_that_reason(tmp_path: Path) -> None:
    int8 = Route("onnxruntime", "int8", "cpu", "onnx_int8_static")
    result = run(tmp_path, request(tmp_path / "o", save(gemm(), tmp_path), STUB, int8))
    assert "give --calibration F.npz" in result.spec.left_out[0].reason


def test_a_variant_newer_than_the_devices_runtime_is_left_out_with_both_versions(tmp_path: Path) -> None:
    wanted = request(tmp_path / "o", DIGITS / "digits.onnx", STUB)
    wanted = replace(wanted, recipe=replace(wanted.recipe, device_runtimes={"onnxruntime": "1.9"}))
    with pytest.raises(NothingToPack, match=r"onnxruntime >= 1\.12 is needed for it; the target has 1\.9"):
        run(tmp_path, wanted)


def test_when_nothing_can_be_packed_no_file_is_left(tmp_path: Path) -> None:
    failing = Route("onnxruntime", "fp32", "cpu", "stub", {"fail": "no such operator: Foo"})
    wanted = request(tmp_path / "o", save(gemm(), tmp_path), failing)
    with pytest.raises(NothingToPack, match="no such operator: Foo"):
        run(tmp_path, wanted)
    assert list((tmp_path / "o").iterdir()) == []


def test_a_refused_model_leaves_an_older_bundle_as_it_was(tmp_path: Path) -> None:
    wanted = request(tmp_path / "o", save(gemm(), tmp_path))
    wanted.output.write_bytes(b"older")
    page = tmp_path / "page.onnx"
    page.write_bytes(b"<!DOCTYPE html><html>404</html>")
    with pytest.raises(ModelRefused, match="HTML page"):
        run(tmp_path, replace(wanted, model=page))
    assert wanted.output.read_bytes() == b"older"


def test_weights_inside_control_flow_are_not_claimed_to_be_quantised(tmp_path: Path) -> None:
    model = Path(__file__).parent / "inputs" / "C07_if_weights_in_branches.onnx"
    np.savez(tmp_path / "c.npz", x=np.random.default_rng(1).normal(size=(16, 8)).astype(np.float32))
    int8 = Route("onnxruntime", "int8", "cpu", "onnx_int8_static")
    result = run(tmp_path, request(tmp_path / "o", model, STUB, int8, calibration=tmp_path / "c.npz"))
    assert result.spec.left_out[0].reason == (
        "onnx_int8_static: 0 of 2 weights can be quantised, 2 of them inside control flow"
    )


def test_a_model_with_external_data_is_packed_and_runs_alone(tmp_path: Path) -> None:
    model = Path(__file__).parent / "inputs" / "C03_external" / "m.onnx"
    run(tmp_path, request(tmp_path / "o", model, replace(STUB, converter="onnx_fp32")))
    archive = open_bundle(tmp_path / "o" / "out.mindie")
    (file,) = archive.bundle.variants[0].files
    onnx.checker.check_model(onnx.load_model_from_string(archive.blob(file.digest)))


def test_strings_go_through_as_they_are(tmp_path: Path) -> None:
    model = Path(__file__).parent / "inputs" / "C17_string_identity.onnx"
    result = run(tmp_path, request(tmp_path / "o", model))
    assert result.spec.signature.inputs[0].dtype == "BYTES"
    archive = open_bundle(tmp_path / "o" / "out.mindie")
    golden = decode_goldens(archive.blob(archive.bundle.goldens.digest))[0]
    assert bytes(golden.inputs[0].data) == bytes(golden.outputs[0].data)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "Bad Name"}, "--name: 'Bad Name' is not"),
        ({"version": "1.0"}, r"--version: '1\.0' is not MAJOR"),
        ({"output": Path("/nowhere/x.mindie")}, "-o: /nowhere is no folder"),
    ],
)
def test_a_wrong_name_version_or_output_is_refused_before_any_work(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    wanted = replace(request(tmp_path / "o", tmp_path / "not-even-there.onnx"), **change)
    with pytest.raises(RecipeRefused, match=said):
        run(tmp_path, wanted)


def test_the_model_itself_is_no_output(tmp_path: Path) -> None:
    model = save(gemm(), tmp_path)
    before = model.read_bytes()
    with pytest.raises(RecipeRefused, match=r"-o: .* is the model itself"):
        run(tmp_path, replace(request(tmp_path / "o", model), output=model))
    assert model.read_bytes() == before


def test_a_device_or_pipe_is_no_output(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(RecipeRefused, match=r"-o: .* is a device or pipe"):
        run(tmp_path, replace(request(tmp_path / "o", save(gemm(), tmp_path)), output=pipe))
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"nope": [1, 8]}, "the model has no input 'nope'; it has x"),
        ({"x": [1, 9]}, r"'x' takes .*; \[1, 9\] does not"),
    ],
)
def test_a_fixed_shape_that_fits_no_input_is_refused_not_left_away(
    tmp_path: Path, shapes: dict[str, list[int]], said: str
) -> None:
    wanted = request(tmp_path / "o", save(gemm(), tmp_path))
    with pytest.raises(RecipeRefused, match=said):
        run(tmp_path, replace(wanted, recipe=replace(wanted.recipe, fixed_shapes=shapes)))


def test_samples_that_do_not_fit_stop_the_build(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", wrong=np.zeros((4, 8), np.float32))
    with pytest.raises(SamplesRefused, match=r"no key 'x', an input of the model; it has wrong"):
        run(tmp_path, request(tmp_path / "o", save(gemm(), tmp_path), calibration=tmp_path / "c.npz"))
