"""The suite that every converter passes: the same job gives the same bytes, which do not tell where they come from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from packager.conversion import convert
from packager.converters.converter import ConversionJob, Converted
from packager.converters.registry import MODULES, converter, missing_module
from packager.errors import ConverterError, RecipeRefused
from packager.samples import load_samples, write_rows
from packager.source import read_source
from packager.toolchain import installed, load_toolchain, toolchains_root

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def run(name: str, folder: Path, **options: str) -> tuple[Converted, dict[str, bytes]]:
    """Convert the digits in a folder of that name; the files made, by name."""
    made = converter(name)
    if (module := missing_module(made)) is not None:
        pytest.skip(f"{module} is not installed")
    if made.needs.toolchain and installed(load_toolchain(made.needs.toolchain), toolchains_root(os.environ)) is None:
        pytest.skip(f"toolchain {made.needs.toolchain} is not installed")
    folder.mkdir()
    model = folder / "model.onnx"
    model.write_bytes((DIGITS / "digits.onnx").read_bytes())
    calibration = folder / "calibration.bin"
    write_rows(calibration, load_samples(DIGITS / "calibration.npz", read_source(model).signature).rows[:16])
    job = ConversionJob(
        converter=name, model=str(model), source_format="onnx", out=str(folder / "out"),
        calibration=str(calibration), options=options, environ=dict(os.environ),
    )  # fmt: skip
    result = convert(made, job, folder, lambda _text: None)
    return result, {path.name: path.read_bytes() for path in (folder / "out").iterdir()}


FROM_ONNX = [
    pytest.param(name, marks=[pytest.mark.toolchain] if converter(name).needs.toolchain else [])
    for name in sorted(MODULES) if name != "tflite_as_is"
]  # fmt: skip


@pytest.mark.parametrize("name", FROM_ONNX)
def test_the_same_job_gives_the_same_bytes_in_another_folder(name: str, tmp_path: Path) -> None:
    first, files = run(name, tmp_path / "a")
    second, again = run(name, tmp_path / "another-folder")
    assert first == second
    assert files == again
    assert first.entry in files
    assert first.tools
    told = b"".join(files.values())
    assert str(tmp_path).encode() not in told
    assert b"another-folder" not in told


def test_a_converter_that_dies_is_reported_with_its_signal(tmp_path: Path) -> None:
    with pytest.raises(ConverterError, match=r"stub: died \(SIGSEGV\)"):
        run("stub", tmp_path / "a", die="11")


def test_a_converters_refusal_arrives_from_its_process(tmp_path: Path) -> None:
    with pytest.raises(ConverterError, match=r"^stub: no such operator: Foo$"):
        run("stub", tmp_path / "a", fail="no such operator: Foo")


def test_an_unknown_converter_is_refused_with_those_there_are() -> None:
    with pytest.raises(RecipeRefused, match="none named 'x'; there is onnx_fp16"):
        converter("x")
