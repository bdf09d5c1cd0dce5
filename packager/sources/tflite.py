"""A TFLite model as source: the flatbuffer is walked by its public schema, every offset checked by reading it.

The signature is the file's own: names without converters' decoration where that leaves them unique, dtypes and layout
as they are (an int8 model takes int8). Nothing is executed.
Source: https://ai.google.dev/edge/litert, "schema.fbs"
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edge_contracts.tensor_signature import Signature, TensorSpec
from packager.errors import ModelRefused
from packager.file_digest import file_digest
from packager.sources.content import TFLITE
from packager.sources.model import SourceModel

SCHEMA_VERSION = 3
STATE_OPERATORS = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"}
_FLOATS = {"FLOAT32": "<f4", "FLOAT16": "<f2", "FLOAT64": "<f8"}
_DTYPES = {
    "FLOAT32": "FP32", "FLOAT16": "FP16", "FLOAT64": "FP64", "INT8": "INT8", "INT16": "INT16", "INT32": "INT32",
    "INT64": "INT64", "UINT8": "UINT8", "UINT16": "UINT16", "UINT32": "UINT32", "UINT64": "UINT64", "BOOL": "BOOL",
    "STRING": "BYTES",
}  # fmt: skip


def read_tflite(path: Path) -> SourceModel:
    """Raises ModelRefused naming tensor or operator; ModuleNotFoundError without ai-edge-litert; OSError passes."""
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    try:
        return _read(path, content, schema)
    except (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise ModelRefused(path, "is cut short, or no TFLite model (its tables point outside the file)") from error


def _read(path: Path, content: bytes, schema: Any) -> SourceModel:
    model = schema.Model.GetRootAs(content, 0)
    if model.Version() != SCHEMA_VERSION:
        raise ModelRefused(path, f"has TFLite schema version {model.Version()}; {SCHEMA_VERSION} is known")
    if not model.SubgraphsLength():
        raise ModelRefused(path, "has no graph")
    types = {value: name for name, value in vars(schema.TensorType).items() if not name.startswith("_")}
    codes = {value: name for name, value in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    operators = sorted({_operator(model.OperatorCodes(i), codes) for i in range(model.OperatorCodesLength())})
    weight_bytes, precision = _weights(path, content, model, types)
    graph = model.Subgraphs(0)
    stateful = STATE_OPERATORS & set(operators)
    signature = _signature(path, graph, types)
    return SourceModel(
        origin=path, path=path, format=TFLITE, runtime="tflite", files=[path], digest=file_digest(path),
        signature=signature, weight_bytes=weight_bytes, operators=operators, precision=precision,
        stateful=bool(stateful), file_names=_file_names(graph, signature),
    )  # fmt: skip


def _operator(code: Any, names: dict[int, str]) -> str:
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    name = names.get(number, f"operator {number}")
    custom = code.CustomCode()
    return f"custom:{custom.decode(errors='replace')}" if name == "CUSTOM" and custom else name


def _weights(path: Path, content: bytes, model: Any, types: dict[int, str]) -> tuple[int, str]:
    """Bytes of all buffers, and the precision that most of them have. Refuses NaN, and buffers outside the file."""
    total = 0
    by_type: dict[str, int] = {}
    for position in range(model.SubgraphsLength()):
        graph = model.Subgraphs(position)
        for index in range(graph.TensorsLength()):
            tensor = graph.Tensors(index)
            data = model.Buffers(tensor.Buffer()).DataAsNumpy()
            if isinstance(data, int) or not data.size:
                continue
            kind = types.get(tensor.Type(), "")
            total += data.nbytes
            by_type[kind] = by_type.get(kind, 0) + data.nbytes
            _refuse_broken(path, tensor, data, kind)
    if total > len(content):
        raise ModelRefused(path, "is cut short: its buffers are larger than the file")
    quantized = by_type.get("INT8", 0) + by_type.get("UINT8", 0)
    floats = by_type.get("FLOAT32", 0)
    if quantized > floats:
        return total, "int8"
    return total, "fp16" if by_type.get("FLOAT16", 0) > floats else "fp32"


def _refuse_broken(path: Path, tensor: Any, data: Any, kind: str) -> None:
    if kind not in _FLOATS or data.nbytes % np.dtype(_FLOATS[kind]).itemsize:
        return
    values = np.frombuffer(data.tobytes(), _FLOATS[kind])
    if nans := int(np.isnan(values).sum()):
        name = tensor.Name().decode(errors="replace")
        raise ModelRefused(path, f"tensor {name!r}: {nans} NaN; the training diverged or the file is damaged")


def _signature(path: Path, graph: Any, types: dict[int, str]) -> Signature:
    inputs = [graph.Tensors(graph.Inputs(i)) for i in range(graph.InputsLength())]
    outputs = [graph.Tensors(graph.Outputs(i)) for i in range(graph.OutputsLength())]
    if not inputs or not outputs:
        raise ModelRefused(path, f"the graph has no {'outputs' if inputs else 'inputs'}")
    return Signature(
        inputs=_specs(path, "input", inputs, types),
        outputs=_specs(path, "output", outputs, types),
    )


def _specs(path: Path, what: str, tensors: Sequence[Any], types: dict[int, str]) -> list[TensorSpec]:
    raw = [tensor.Name().decode() for tensor in tensors]
    plain = [plain_name(name) for name in raw]
    names = plain if len(set(plain)) == len(plain) and all(plain) else raw
    specs: list[TensorSpec] = []
    for name, tensor in zip(names, tensors, strict=True):
        kind = types.get(tensor.Type(), str(tensor.Type()))
        if kind not in _DTYPES:
            raise ModelRefused(path, f"{what} {name!r} is {kind}, which a request cannot carry")
        fixed = [int(n) for n in tensor.ShapeAsNumpy()] if tensor.ShapeLength() else []
        told = [int(n) for n in tensor.ShapeSignatureAsNumpy()] if tensor.ShapeSignatureLength() else fixed
        shape: list[int | str] = [_dimension(size, name, axis) for axis, size in enumerate(told)]
        specs.append(TensorSpec(name=name, dtype=_DTYPES[kind], shape=shape))
    return specs


def _file_names(graph: Any, signature: Signature) -> dict[str, str]:
    raw = [graph.Tensors(graph.Inputs(i)).Name().decode() for i in range(graph.InputsLength())]
    raw += [graph.Tensors(graph.Outputs(i)).Name().decode() for i in range(graph.OutputsLength())]
    named = [spec.name for spec in [*signature.inputs, *signature.outputs]]
    return {name: file for name, file in zip(named, raw, strict=True) if name != file}


def _dimension(size: int, name: str, axis: int) -> int | str:
    if size >= 0:
        return size
    return "batch" if axis == 0 else f"{name}_{axis}"


def plain_name(name: str) -> str:
    """``serving_default_image:0`` is ``image``."""
    return re.sub(r":\d+$", "", name).removeprefix("serving_default_")
