"""No tool that a build starts leaves a trace of its own reporting: neither a file nor an id."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from packager.converters.onnx2tf_runner import _child_environment
from packager.isolated_run import child_environment
from packager.quiet_tools import VARIABLES
from packager.toolchain import Environment, load_toolchain
from packager.toolchain_install import without_python_settings

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def test_a_build_with_every_int8_tool_leaves_no_telemetry_in_an_empty_home(tmp_path: Path) -> None:
    if importlib.util.find_spec("nncf") is None:
        pytest.skip("nncf is not installed")
    folders = {name: tmp_path / name for name in ("home", "cache", "tmp", "out")}
    for folder in folders.values():
        folder.mkdir()
    recipe = tmp_path / "recipe.toml"
    routes = [("onnxruntime", "fp32", "onnx_fp32"), ("onnxruntime", "int8", "onnx_int8_static"),
              ("openvino", "int8", "openvino_int8")]  # fmt: skip
    recipe.write_text(
        "".join(
            f'[[variants]]\nruntime="{runtime}"\nprecision="{precision}"\ntarget="cpu"\nconverter="{converter}"\n'
            for runtime, precision, converter in routes
        )
    )
    environ = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environ.update(HOME=str(folders["home"]), XDG_CACHE_HOME=str(folders["cache"]), TMPDIR=str(folders["tmp"]))
    finished = subprocess.run(
        [
            sys.executable, "-m", "packager", "build", str(DIGITS / "digits.onnx"), "-o",
            str(folders["out"] / "d.mindie"), "--name", "d", "--version", "1.0.0", "--recipe", str(recipe),
            "--calibration", str(DIGITS / "calibration.npz"),
        ],
        env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert "3 variants" in finished.stdout
    written = [path for name in ("home", "cache", "tmp") for path in folders[name].rglob("*")]
    assert written == []


def test_every_process_that_is_started_gets_the_switch(tmp_path: Path) -> None:
    environment = Environment(load_toolchain("tflite"), tmp_path)
    for environ in (
        child_environment({}, tmp_path),
        _child_environment(tmp_path, environment, {}),
        without_python_settings({}),
    ):
        assert VARIABLES.items() <= environ.items()


@pytest.mark.parametrize("module", ["packager.run_variant", "packager.converters.child"])
def test_a_childs_tools_cannot_import_openvinos_telemetry(module: str, tmp_path: Path) -> None:
    program = (
        f"import sys, {module} as child, packager.quiet_tools\n"
        "sys.argv = ['child', sys.argv[1]]\n"
        "try:\n    child.main()\nexcept FileNotFoundError:\n    pass\n"
        "assert sys.modules['openvino_telemetry'] is None"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "job.json")], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
