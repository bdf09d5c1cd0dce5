"""Checks of an ONNX graph that its own checker and the runtimes leave to chance: names, weights, types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packager.errors import ModelRefused
from packager.sources.external_data import ExternalRange, all_graphs, all_tensors, subgraphs

CHUNK_VALUES = 4 * 1024 * 1024
WEIGHT_INPUTS = {"Conv": (1, 2), "ConvTranspose": (1, 2), "Gemm": (0, 1, 2), "MatMul": (0, 1), "LSTM": (1, 2, 3),
                 "GRU": (1, 2, 3), "RNN": (1, 2, 3), "BatchNormalization": (1, 2, 3, 4)}  # fmt: skip
"""Operators whose inputs at these places are weights: an infinity there is damage, elsewhere it may be a mask."""
_FLOATS = {1: "<f4", 10: "<f2", 11: "<f8"}


def refuse_repeated_names(path: Path, model: Any) -> None:
    """ONNX is in static single assignment form: a name stands for one value. Raises ModelRefused with the name."""
    for graph in all_graphs(model):
        _refuse_repeats(path, "initializer", [tensor.name for tensor in graph.initializer])
        _refuse_repeats(path, "input", [value.name for value in graph.input])
        _refuse_repeats(path, "graph output", [value.name for value in graph.output])
        produced = [name for node in graph.node for name in node.output if name]
        _refuse_repeats(path, "value", produced, " is produced by two nodes")
        stored = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
        if both := sorted(stored & set(produced)):
            raise ModelRefused(path, f"value {both[0]!r} is an input or initializer and is produced by a node as well")


def _refuse_repeats(path: Path, what: str, names: Iterable[str], how: str = " appears twice") -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelRefused(path, f"{what} {name!r}{how}; export the model again, or rename one")
        seen.add(name)


def refuse_broken_weights(path: Path, model: Any, external: list[ExternalRange]) -> None:
    """Raises ModelRefused with tensor and count for NaN anywhere, and for infinity among weights."""
    weights = _weight_names(model)
    places = iter(external)
    for tensor in all_tensors(model):
        place = next(places) if tensor.data_location == 1 else None
        dtype = _FLOATS.get(tensor.data_type)
        if dtype is None:
            continue
        nans = infinities = 0
        for chunk in _chunks(tensor, place, dtype):
            nans += int(np.isnan(chunk).sum())
            infinities += int(np.isinf(chunk).sum())
        if nans or (infinities and tensor.name in weights):
            found = ", ".join(f"{count} {what}" for count, what in ((nans, "NaN"), (infinities, "Inf")) if count)
            raise ModelRefused(path, f"tensor {tensor.name!r}: {found}; the training diverged or the file is damaged")


def _chunks(tensor: Any, place: ExternalRange | None, dtype: str) -> Iterator[NDArray[Any]]:
    from onnx import numpy_helper

    if place is None:
        yield numpy_helper.to_array(tensor)
        return
    size = np.dtype(dtype).itemsize
    with place.file.open("rb") as file:
        file.seek(place.offset)
        left = place.length
        while left > 0 and (data := file.read(min(left, CHUNK_VALUES * size))):
            left -= len(data)
            yield np.frombuffer(data, dtype, count=len(data) // size)


def _weight_names(model: Any) -> set[str]:
    return {
        node.input[place]
        for graph in all_graphs(model)
        for node in graph.node
        for place in WEIGHT_INPUTS.get(node.op_type, ())
        if place < len(node.input)
    }


def operators(model: Any) -> list[str]:
    """Operators in use, those of other domains as ``domain:Name``, sorted."""
    pending = [model.graph.node, *(function.node for function in model.functions)]
    found: set[str] = set()
    while pending:
        nodes = pending.pop()
        found |= {f"{node.domain}:{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
                  for node in nodes}  # fmt: skip
        pending += [graph.node for graph in subgraphs(nodes)]
    return sorted(found)


def node_count(model: Any) -> int:
    """Nodes that compute something, those inside control flow included."""
    from packager.sources.external_data import all_graphs

    return sum(node.op_type != "Constant" for graph in all_graphs(model) for node in graph.node)


def stored_precision(model: Any) -> str:
    """fp32, fp16 or int8: as most weight bytes are stored; a model that quantises is int8."""
    from packager.sources.external_data import tensor_bytes

    sizes: dict[int, int] = {}
    for tensor in all_tensors(model):
        sizes[tensor.data_type] = sizes.get(tensor.data_type, 0) + (tensor_bytes(tensor) or 0)
    if sizes.get(2, 0) + sizes.get(3, 0) > sizes.get(1, 0) + sizes.get(10, 0):
        return "int8"
    return "fp16" if sizes.get(10, 0) > sizes.get(1, 0) else "fp32"


def default_opset(model: Any) -> int | None:
    """The version of the ``ai.onnx`` operator set, None when the model imports none."""
    return next((int(item.version) for item in model.opset_import if item.domain in ("", "ai.onnx")), None)
