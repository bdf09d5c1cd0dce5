from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from packager.converters.onnx2tf_runner import convert
from packager.errors import ConversionTimedOut, ConverterError
from packager.toolchain import Environment, load_toolchain, toolchains_root
from packager.toolchain_install import install

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def fake_tool(folder: Path, program: str) -> Environment:
    """An environment whose Python is a shell script."""
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    return Environment(load_toolchain("tflite"), folder)


def ignore(_line: str) -> None:
    pass


def test_a_tool_that_fails_is_quoted_in_one_line(tmp_path: Path) -> None:
    tool = fake_tool(tmp_path, "echo 'Traceback:'; echo 'NotImplementedError: Foo'; echo; echo WARNING; exit 1")
    with pytest.raises(ConverterError, match=r"gave no model \(exit status 1\): NotImplementedError: Foo") as raised:
        convert(b"onnx", tool, os.environ, 30.0, ignore)
    assert raised.value.last_lines == ("Traceback:", "NotImplementedError: Foo", "WARNING")


def test_a_tool_that_ends_well_without_a_model_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(ConverterError, match="gave no model"):
        convert(b"onnx", fake_tool(tmp_path, "exit 0"), os.environ, 30.0, ignore)


def test_a_file_that_is_no_tflite_model_is_not_believed(tmp_path: Path) -> None:
    tool = fake_tool(tmp_path, "mkdir out; echo '<html>' > out/model_float32.tflite")
    with pytest.raises(ConverterError, match="no TFLite model"):
        convert(b"onnx", tool, os.environ, 30.0, ignore)


def test_a_tool_that_hangs_is_stopped_after_its_time(tmp_path: Path) -> None:
    with pytest.raises(ConversionTimedOut, match="stopped after 1 s"):
        convert(b"onnx", fake_tool(tmp_path, "exec sleep 600"), os.environ, 1.0, ignore)


@pytest.mark.toolchain
@pytest.mark.slow
def test_the_digits_convert_to_the_same_bytes_each_time_and_answer_like_the_source() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    onnxruntime = pytest.importorskip("onnxruntime")
    tflite = load_toolchain("tflite")
    environment = install(tflite, toolchains_root(os.environ), os.environ, ignore, lambda _seconds: None)
    source = (DIGITS / "digits.onnx").read_bytes()
    first, second = (convert(source, environment, os.environ, 120.0, ignore) for _ in range(2))
    assert first == second
    assert first.notes == ()
    assert (DIGITS / "digits.onnx").read_bytes() == source

    image = np.load(DIGITS / "heldout.npz", allow_pickle=False)["image"][:5]
    expected = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, {"image": image})[0]
    interpreter = litert.Interpreter(model_content=first.content, num_threads=1)
    model_input, model_output = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    interpreter.resize_tensor_input(model_input["index"], [5, 8, 8, 1])
    interpreter.allocate_tensors()
    interpreter.set_tensor(model_input["index"], image.transpose(0, 2, 3, 1))
    interpreter.invoke()
    assert (model_input["name"], model_output["name"]) == ("image", "logits")
    assert np.abs(interpreter.get_tensor(model_output["index"]) - expected).max() < 1e-4
