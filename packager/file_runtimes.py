"""Open a model file in a runtime and run it, for checks while packing. Only `packager.run_variant`'s process uses it.

One thread each, full precision: what is compared here is the file, not the speed of this machine.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from packager.quiet_tools import silence

Array = NDArray[Any]

_OF_ONNX = {
    "tensor(float)": "FP32", "tensor(double)": "FP64", "tensor(float16)": "FP16", "tensor(bfloat16)": "BF16",
    "tensor(int64)": "INT64", "tensor(int32)": "INT32", "tensor(int16)": "INT16", "tensor(int8)": "INT8",
    "tensor(uint64)": "UINT64", "tensor(uint32)": "UINT32", "tensor(uint16)": "UINT16", "tensor(uint8)": "UINT8",
    "tensor(bool)": "BOOL", "tensor(string)": "BYTES",
}  # fmt: skip
_OF_OPENVINO = {
    "f32": "FP32", "f64": "FP64", "f16": "FP16", "bf16": "BF16", "i64": "INT64", "i32": "INT32", "i16": "INT16",
    "i8": "INT8", "u64": "UINT64", "u32": "UINT32", "u16": "UINT16", "u8": "UINT8", "boolean": "BOOL",
    "string": "BYTES",
}  # fmt: skip


class FileTensor(msgspec.Struct, frozen=True):
    """A tensor as the file has it: shape with -1 for open dimensions, None when unknown; scale 0 means none."""

    name: str
    dtype: str
    shape: list[int] | None
    scale: float | None = None
    zero_point: int | None = None


class OpenFile(Protocol):
    """A loaded model. ``run`` takes and gives arrays in the file's own terms and raises whatever the runtime raises."""

    inputs: list[FileTensor]
    outputs: list[FileTensor]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]: ...


class OnnxFile:
    """onnxruntime on the CPU."""

    def __init__(self, path: Path) -> None:
        silence()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs = [_onnx_tensor(value) for value in self._session.get_inputs()]
        self.outputs = [_onnx_tensor(value) for value in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        as_text = {
            name: array.astype(object) if array.dtype.kind != "O" else _text(array) for name, array in feeds.items()
            if array.dtype.kind in "OSU"
        }  # fmt: skip
        names = [tensor.name for tensor in self.outputs]
        return dict(zip(names, self._session.run(names, {**feeds, **as_text}), strict=True))


class OpenVinoFile:
    """OpenVINO on the CPU, computing in fp32."""

    def __init__(self, path: Path) -> None:
        silence()
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": openvino.Type.f32, "PERFORMANCE_HINT": "LATENCY",
        }  # fmt: skip
        compiled = openvino.Core().compile_model(str(path), "CPU", settings)
        self._request = compiled.create_infer_request()
        self._ports = {_port_name(port): port for port in compiled.outputs}
        self.inputs = [_openvino_tensor(port) for port in compiled.inputs]
        self.outputs = [_openvino_tensor(port) for port in compiled.outputs]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        plain = {name: _text(a).astype(str) if a.dtype.kind == "O" else a for name, a in feeds.items()}
        results = self._request.infer(plain)
        return {name: np.array(results[port]) for name, port in self._ports.items()}


class TfliteFile:
    """ai-edge-litert or tflite-runtime."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._with_delegate = True
        try:
            self._open()
        except (RuntimeError, ValueError):
            self._with_delegate = False
            self._open()
        details = self._interpreter.get_input_details()
        self._indexes = {detail["name"]: int(detail["index"]) for detail in details}
        self._results = {detail["name"]: int(detail["index"]) for detail in self._interpreter.get_output_details()}
        self.inputs = [_tflite_tensor(detail) for detail in details]
        self.outputs = [_tflite_tensor(detail) for detail in self._interpreter.get_output_details()]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """A file that XNNPACK refuses may still run without it, as the device tries as well."""
        try:
            return self._run(feeds)
        except (RuntimeError, ValueError):
            if not self._with_delegate:
                raise
            self._with_delegate = False
            self._open()
            return self._run(feeds)

    def _open(self) -> None:
        module = next(name for name in ("ai_edge_litert", "tflite_runtime") if importlib.util.find_spec(name))
        api = importlib.import_module(f"{module}.interpreter")
        plain = {} if self._with_delegate else {
            "experimental_op_resolver_type": api.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        }  # fmt: skip
        self._interpreter = api.Interpreter(model_path=str(self._path), num_threads=1, **plain)
        self._interpreter.allocate_tensors()
        self._shapes: dict[str, tuple[int, ...]] = {}

    def _run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        shapes = {name: array.shape for name, array in feeds.items()}
        if shapes != self._shapes:
            self._shapes = {}  # forgotten if what follows fails: the next run sets all shapes anew
            for name, shape in shapes.items():
                self._interpreter.resize_tensor_input(self._indexes[name], shape, strict=True)
            self._interpreter.allocate_tensors()
            self._shapes = shapes
        for name, array in feeds.items():
            self._interpreter.set_tensor(self._indexes[name], array)
        self._interpreter.invoke()
        return {name: np.array(self._interpreter.get_tensor(index)) for name, index in self._results.items()}


OPENERS: dict[str, Callable[[Path], OpenFile]] = {
    "onnxruntime": OnnxFile,
    "openvino": OpenVinoFile,
    "tflite": TfliteFile,
}
MODULES = {
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "tflite": ("ai_edge_litert", "tflite_runtime"),
}
PIP_LINES = {
    "onnxruntime": "pip install 'mindedge[onnxruntime]'",
    "openvino": "pip install 'mindedge[openvino]'",
    "tflite": "pip install 'mindedge[litert]'",
}


def missing_pip_line(runtime: str) -> str | None:
    """None when the runtime can be found (not: works), else what installs it. Imports nothing."""
    found = any(importlib.util.find_spec(module) is not None for module in MODULES[runtime])
    return None if found else PIP_LINES[runtime]


def runtime_version(runtime: str) -> str:
    """The installed version, "" when it has none to tell."""
    for module in MODULES[runtime]:
        try:
            return version(module.replace("_", "-"))
        except PackageNotFoundError:
            continue
    return ""


def _onnx_tensor(value: Any) -> FileTensor:
    shape = None if value.shape is None else [dim if isinstance(dim, int) else -1 for dim in value.shape]
    return FileTensor(value.name, _OF_ONNX.get(value.type, value.type), shape)


def _openvino_tensor(port: Any) -> FileTensor:
    partial = port.get_partial_shape()
    shape = None if partial.rank.is_dynamic else [d.get_length() if d.is_static else -1 for d in partial]
    name = port.get_element_type().get_type_name()
    return FileTensor(_port_name(port), _OF_OPENVINO.get(name, name), shape)


def _port_name(port: Any) -> str:
    names = sorted(port.get_names())
    return str(names[0] if names else port.get_node().get_friendly_name())


def _tflite_tensor(detail: Any) -> FileTensor:
    from edge_contracts.tensor_signature import DTYPE_OF_NUMPY

    dtype = np.dtype(detail["dtype"])
    name = "BYTES" if dtype.kind in "SO" else DTYPE_OF_NUMPY.get(dtype.name, dtype.name)
    scale, zero_point = detail["quantization"]
    open_shape = detail.get("shape_signature", detail["shape"])
    shape = [int(n) for n in (open_shape if len(open_shape) == len(detail["shape"]) else detail["shape"])]
    quantized = bool(scale)
    return FileTensor(
        detail["name"], name, shape, float(scale) if quantized else None, int(zero_point) if quantized else None
    )


def _text(array: Array) -> Array:
    """Bytes to the text that the runtimes take; what is no UTF-8 raises UnicodeDecodeError."""
    decoded = np.empty(array.shape, dtype=object)
    decoded.ravel()[:] = [item.decode() if isinstance(item, bytes) else item for item in array.ravel().tolist()]
    return decoded
