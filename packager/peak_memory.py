"""How much memory a variant takes at most, computed from the source graph, so that it is the same everywhere.

Weights as stored plus the largest sum of activations alive at once when the nodes run in the file's order, with the
shapes of a sample request (open dimensions as they are there) and every buffer freed after its last use. A runtime's
own code and its working copies are not counted. None where shapes cannot be inferred.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MAX_INFERENCE_BYTES = 1 << 30
_BYTES = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}


def activation_bytes(path: Path, shapes: Mapping[str, Sequence[int]]) -> int | None:
    """Peak of live activations in bytes. ``shapes``: those of a request, by input."""
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
        if model.ByteSize() > MAX_INFERENCE_BYTES:
            return None
        for value in model.graph.input:
            if value.name in shapes:
                _fix(value, shapes[value.name])
        del model.graph.value_info[:]
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 - a foreign inference that fails on some graphs; the number is a help, not a condition
        return None
    return _peak(inferred.graph)


def _fix(value: Any, shape: Sequence[int]) -> None:
    for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
        dim.ClearField("dim_param")
        dim.dim_value = size


def _peak(graph: Any) -> int | None:
    stored = {tensor.name for tensor in graph.initializer}
    values = [*graph.input, *graph.value_info, *graph.output]
    sizes = {value.name: _size(value) for value in values if value.name not in stored}
    last_use = {name: place for place, node in enumerate(graph.node) for name in node.input}
    last_use.update({value.name: len(graph.node) for value in graph.output})
    live = {value.name: sizes.get(value.name) or 0 for value in graph.input if value.name not in stored}
    peak = sum(live.values())
    unknown = 0
    for place, node in enumerate(graph.node):
        for name in filter(None, node.output):
            size = sizes.get(name)
            unknown += size is None
            live[name] = size or 0
        peak = max(peak, sum(live.values()))
        for name in [name for name in live if last_use.get(name, -1) <= place]:
            del live[name]
    return None if unknown > len(graph.node) // 4 else peak


def _size(value: Any) -> int | None:
    tensor = value.type.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
    if not tensor.HasField("shape") or tensor.elem_type not in _BYTES or any(dim <= 0 for dim in dims):
        return None
    return math.prod(dims) * _BYTES[tensor.elem_type]
