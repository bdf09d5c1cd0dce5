from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from packager.__main__ import main
from tests.packager.models import gemm, save
from tests.simulators.bundle_factory import stub_bundle

INPUTS = Path(__file__).parents[1] / "inputs"


def test_build_prints_one_document_and_progress_goes_to_stderr(tmp_path: Path, capfd: Any) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[[variants]]\nruntime="onnxruntime"\nprecision="fp32"\ntarget="cpu"\nconverter="stub"\n')
    model, out = save(gemm(), tmp_path), tmp_path / "m.mindie"
    status = main(
        ["build", str(model), "-o", str(out), "--name", "m", "--version", "1.0.0", "--recipe", str(recipe), "--json"]
    )
    printed, progress = capfd.readouterr()
    assert status == 0
    document = msgspec.json.decode(printed)
    assert [variant["name"] for variant in document["variants"]] == ["onnxruntime-fp32-cpu"]
    assert document["signed"] is False
    assert "converting" in progress
    assert (tmp_path / "m.report.json").is_file()

    assert main(["inspect", str(out), "--json"]) == 0
    shown = msgspec.json.decode(capfd.readouterr().out)
    assert shown["digest"] == document["digest"]
    assert shown["goldens"] == 8
    assert shown["variants"][0]["accuracy"]["drop"] == 0


@pytest.mark.parametrize("name", ["C15_git_lfs_pointer.onnx", "C05_nan_inf_weights.onnx", "C01_ir_too_new.onnx"])
def test_a_bad_model_is_one_line_and_status_1(name: str, tmp_path: Path, capfd: Any) -> None:
    out = tmp_path / "x.mindie"
    assert main(["build", str(INPUTS / name), "-o", str(out), "--name", "x", "--version", "1.0.0"]) == 1
    lines = capfd.readouterr().err.strip().splitlines()
    assert len([line for line in lines if line.startswith("mindpack: ")]) == 1
    assert "Traceback" not in "".join(lines)
    assert not out.exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--name", "Digits"),
        ("--version", "1"),
        ("-o", "/nonexistent/x.mindie"),
        ("--max-drop", "2"),
        ("--include-runtimes", "tpu"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_line_that_names_it_and_status_2(
    option: str, value: str, tmp_path: Path, capfd: Any
) -> None:
    given = {"--name": "x", "--version": "1.0.0", "-o": str(tmp_path / "x.mindie"), option: value}
    assert main(["build", str(tmp_path / "model.onnx"), *(word for pair in given.items() for word in pair)]) == 2
    said = capfd.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"mindpack: {option}: ")


def test_verify_refuses_what_nobody_signed_unless_told(tmp_path: Path, capfd: Any) -> None:
    bundle = stub_bundle(tmp_path / "b.mindie")
    assert main(["verify", str(bundle)]) == 1
    assert "--allow-unsigned accepts it" in capfd.readouterr().err
    assert main(["verify", str(bundle), "--allow-unsigned"]) == 0


def test_verify_finds_one_changed_byte_in_the_weights(tmp_path: Path, capfd: Any) -> None:
    bundle = stub_bundle(tmp_path / "b.mindie")
    content = bytearray(bundle.read_bytes())
    place = content.rindex(b'"bias"')
    content[place + 9] ^= 1
    bundle.write_bytes(content)
    assert main(["verify", str(bundle), "--allow-unsigned"]) == 1
    said = capfd.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "has changed bytes" in said[0]


@pytest.mark.parametrize("archive", sorted(path.name for path in (INPUTS / "archives").iterdir()))
def test_a_hostile_archive_is_refused_and_nothing_is_written(
    archive: str, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify", str(INPUTS / "archives" / archive), "--allow-unsigned"]) == 1
    assert archive in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
