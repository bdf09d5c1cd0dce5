"""What a bare model file takes and gives, as a runtime reads it. For child processes only: it imports runtimes.

Symbolic dimensions keep the file's name for them, or get one by position.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.errors import BackendError, RuntimeMissing
from agent.inference.backends.tflite import installed_module
from agent.inference.foreign_errors import translated
from agent.inference.quiet_runtime import silence
from edge_contracts.tensor_signature import DTYPE_OF_NUMPY, Signature, TensorSpec

ONNX_DTYPES = {
    "tensor(float)": "FP32", "tensor(float16)": "FP16", "tensor(double)": "FP64", "tensor(bfloat16)": "BF16",
    "tensor(int8)": "INT8", "tensor(int16)": "INT16", "tensor(int32)": "INT32", "tensor(int64)": "INT64",
    "tensor(uint8)": "UINT8", "tensor(uint16)": "UINT16", "tensor(uint32)": "UINT32", "tensor(uint64)": "UINT64",
    "tensor(bool)": "BOOL", "tensor(string)": "BYTES",
}  # fmt: skip
QUANTIZED_MARKS = (b"QuantizeLinear", b"QLinearConv", b"ConvInteger", b"MatMulInteger", b"DynamicQuantizeLinear")


def read_signature(file: Path, runtime: str) -> Signature:
    """Raises RuntimeMissing, BackendError for a file that the runtime cannot read."""
    with translated(runtime, f"read {file.name}"):
        return _onnx(file) if runtime == "onnxruntime" else _tflite(file)


def read_precision(file: Path, runtime: str) -> str:
    """ "int8" for a quantised file, "fp16" for a half-precision one, else "fp32"; told from the file itself."""
    if runtime == "onnxruntime":
        content = file.read_bytes()
        return "int8" if any(mark in content for mark in QUANTIZED_MARKS) else "fp32"
    dtypes = [detail["dtype"].__name__ for detail in _interpreter(file).get_tensor_details()]
    if dtypes.count("int8") > len(dtypes) // 4:
        return "int8"
    return "fp16" if dtypes.count("float16") > len(dtypes) // 4 else "fp32"


def _onnx(file: Path) -> Signature:
    silence()
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise RuntimeMissing("onnxruntime", "pip install 'mindedge[onnxruntime]'") from error
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
    return Signature(
        inputs=[_onnx_tensor(item) for item in session.get_inputs()],
        outputs=[_onnx_tensor(item) for item in session.get_outputs()],
    )


def _onnx_tensor(item: Any) -> TensorSpec:
    dtype = ONNX_DTYPES.get(item.type)
    if dtype is None:
        raise BackendError("onnxruntime", f"{item.name!r} is a {item.type}, which no request can carry")
    return TensorSpec(name=item.name, dtype=dtype, shape=_dimensions(item.name, item.shape))


def _tflite(file: Path) -> Signature:
    interpreter = _interpreter(file)
    return Signature(
        inputs=[_tflite_tensor(detail) for detail in interpreter.get_input_details()],
        outputs=[_tflite_tensor(detail) for detail in interpreter.get_output_details()],
    )


def _interpreter(file: Path) -> Any:
    import importlib

    module = installed_module()
    if module is None:
        raise RuntimeMissing("tflite", "pip install 'mindedge[litert]'")
    return importlib.import_module(f"{module}.interpreter").Interpreter(model_path=str(file), num_threads=1)


def _tflite_tensor(detail: Any) -> TensorSpec:
    shape = [int(size) for size in detail.get("shape_signature", detail["shape"])]
    dtype = DTYPE_OF_NUMPY.get(detail["dtype"].__name__.rstrip("_"), "BYTES")
    return TensorSpec(name=detail["name"], dtype=dtype, shape=_dimensions(detail["name"], shape))


def _dimensions(tensor: str, shape: Sequence[Any]) -> list[int | str]:
    """A positive int is a size, a text the name of a symbolic dimension; anything else is one without a name."""
    return [
        size if isinstance(size, (int, str)) and size not in ("", -1) else f"{tensor}.{axis}"
        for axis, size in enumerate(shape)
    ]
