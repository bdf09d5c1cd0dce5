"""A small TFLite model, built from the public schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def affine(folder: Path, nans: int = 0) -> Path:
    """``y = x @ w.T + b``; x FP32 [1, 3] named as TensorFlow's exporter does, y [1, 2]. ``nans`` weights are NaN."""
    import flatbuffers
    import numpy as np
    from ai_edge_litert import schema_py_generated as s

    weights = np.array([[1, 2, 3], [-1, 0.5, 2]], np.float32)
    weights.ravel()[:nans] = np.nan
    model = s.ModelT()
    model.version = 3
    model.description = b"affine"
    model.buffers = [_buffer(s, b""), _buffer(s, weights.tobytes()), _buffer(s, np.array([0.5, -1], "<f4").tobytes())]
    code = s.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.FULLY_CONNECTED
    code.version = 1
    model.operatorCodes = [code]
    graph = s.SubGraphT()
    graph.name = b"main"
    graph.tensors = [
        _tensor(s, "serving_default_x:0", [1, 3], 0), _tensor(s, "w", [2, 3], 1), _tensor(s, "b", [2], 2),
        _tensor(s, "y", [1, 2], 0),
    ]  # fmt: skip
    operator = s.OperatorT()
    operator.opcodeIndex = 0
    operator.inputs, operator.outputs = [0, 1, 2], [3]
    operator.builtinOptionsType = s.BuiltinOptions.FullyConnectedOptions
    operator.builtinOptions = s.FullyConnectedOptionsT()
    graph.operators, graph.inputs, graph.outputs = [operator], [0], [3]
    model.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path = folder / "affine.tflite"
    path.write_bytes(bytes(builder.Output()))
    return path


def _buffer(schema: Any, data: bytes) -> Any:
    import numpy as np

    buffer = schema.BufferT()
    buffer.data = np.frombuffer(data, np.uint8) if data else None
    return buffer


def _tensor(schema: Any, name: str, shape: list[int], buffer: int) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.buffer = name.encode(), shape, buffer
    tensor.type = schema.TensorType.FLOAT32
    return tensor
