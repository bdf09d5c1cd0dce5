"""TFLite files written without a converter, through the schema that ai-edge-litert brings along.

``affine.tflite`` is what ``tflite_affine(seeded_affine())`` writes, kept for environments with tflite-runtime alone.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from tests.simulators.bundle_factory import CLASSES, INPUTS, Affine, VariantFiles, affine_spec

KEPT = Path(__file__).with_name("affine.tflite")


def tflite_affine(model: Affine) -> bytes:
    """One FULLY_CONNECTED operator, float32, leading axis open."""
    import flatbuffers
    import numpy as np
    from ai_edge_litert import schema_py_generated as schema

    weight = np.ascontiguousarray(np.asarray(model.weight, dtype=np.float32).T)
    file = schema.ModelT()
    file.version = 3
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 1
    file.operatorCodes = [code]
    file.buffers = [_buffer(schema, data) for data in (None, weight, np.asarray(model.bias, dtype=np.float32))]
    graph = schema.SubGraphT()
    graph.tensors = [
        _tensor(schema, "x", [1, INPUTS], 0, open_batch=True), _tensor(schema, "weight", [CLASSES, INPUTS], 1),
        _tensor(schema, "bias", [CLASSES], 2), _tensor(schema, "logits", [1, CLASSES], 0, open_batch=True),
    ]  # fmt: skip
    graph.inputs, graph.outputs = [0], [3]
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0, 1, 2], [3]
    operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    operator.builtinOptions = schema.FullyConnectedOptionsT()
    graph.operators = [operator]
    file.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def tflite_variant(model: Affine, name: str = "tflite-fp32-cpu", **spec: Any) -> VariantFiles:
    """The affine model as a variant; without the schema only the seeded one can be had."""
    has_schema = importlib.util.find_spec("ai_edge_litert") is not None
    content = tflite_affine(model) if has_schema else KEPT.read_bytes()
    return VariantFiles(affine_spec(name, "tflite", "model.tflite", **spec), {"model.tflite": content})


def _tensor(schema: Any, name: str, shape: list[int], buffer: int, *, open_batch: bool = False) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name, shape, schema.TensorType.FLOAT32, buffer
    if open_batch:
        tensor.shapeSignature = [-1, *shape[1:]]
    return tensor


def _buffer(schema: Any, data: Any) -> Any:
    import numpy as np

    buffer = schema.BufferT()
    buffer.data = None if data is None else np.frombuffer(data.tobytes(), dtype=np.uint8)
    return buffer
