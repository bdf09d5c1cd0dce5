"""ONNX external data, checked before a byte of it is opened: nothing outside the model's folder is ever read.

Each external tensor names a file relative to the model (`location`), an `offset` and a `length`. Refused: absolute
paths, `..`, back slashes, links anywhere on the way, what is no plain file, a range past the file's end, and a length
that does not fit dtype and shape.
Source: https://onnx.ai/onnx/repo-docs/ExternalData.html
"""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packager.errors import ModelRefused


@dataclass(frozen=True)
class ExternalRange:
    """Where an external tensor's bytes lie."""

    tensor: str
    file: Path
    offset: int
    length: int


def all_graphs(model: Any) -> Iterator[Any]:
    """The graph, and the graphs inside control-flow nodes, functions' included, outermost first."""
    pending = [model.graph]
    while pending:
        graph = pending.pop(0)
        yield graph
        pending += list(subgraphs(graph.node))
    for function in model.functions:
        pending = list(subgraphs(function.node))
        while pending:
            graph = pending.pop(0)
            yield graph
            pending += list(subgraphs(graph.node))


def subgraphs(nodes: Any) -> Iterator[Any]:
    """Graphs held by the nodes' attributes."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs


def all_tensors(model: Any) -> Iterator[Any]:
    """Every stored tensor: initialisers, sparse ones, and tensors in attributes, of all graphs and functions."""
    graphs = list(all_graphs(model))
    for graph in graphs:
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for nodes in [*(graph.node for graph in graphs), *(function.node for function in model.functions)]:
        for node in nodes:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def external_ranges(path: Path, model: Any) -> list[ExternalRange]:
    """Every external tensor's place, all checked. Raises ModelRefused naming tensor and file."""
    return [_range(path, tensor) for tensor in all_tensors(model) if tensor.data_location == 1]


def _range(path: Path, tensor: Any) -> ExternalRange:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    file = _inside(path, tensor.name, location)
    size = file.stat().st_size
    expected = tensor_bytes(tensor)
    offset = _number(path, tensor.name, "offset", entries.get("offset", "0"))
    length = _number(path, tensor.name, "length", entries.get("length", str(max(size - offset, 0))))
    if offset + length > size:
        raise ModelRefused(
            path, f"tensor {tensor.name!r}: bytes {offset} to {offset + length} of {location!r}, which has {size}: "
            "cut short, or not the file that belongs to this model",
        )  # fmt: skip
    if expected is not None and length != expected and ("length" in entries or length < expected):
        raise ModelRefused(path, f"tensor {tensor.name!r}: {length} bytes in {location!r}, its shape needs {expected}")
    return ExternalRange(tensor.name, file, offset, length if expected is None else expected)


def _inside(path: Path, tensor: str, location: str) -> Path:
    pure = PurePosixPath(location)
    outside = pure.is_absolute() or ".." in pure.parts or "\\" in location or "\0" in location or location[1:2] == ":"
    if not location or outside or not pure.parts:
        raise ModelRefused(
            path, f"tensor {tensor!r}: external data at {location[:120]!r} is outside the model's folder; not opened"
        )
    place = path.parent
    for part in pure.parts:
        place = place / part
        try:
            mode = place.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise ModelRefused(
                path, f"tensor {tensor!r}: its data file {location!r} is missing; put it beside the model"
            ) from None
        if stat.S_ISLNK(mode):
            raise ModelRefused(path, f"tensor {tensor!r}: {location!r} goes through a link; not opened: copy the file")
    if not stat.S_ISREG(mode):
        raise ModelRefused(path, f"tensor {tensor!r}: {location!r} is no plain file; not opened")
    return place


def _number(path: Path, tensor: str, key: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ModelRefused(path, f"tensor {tensor!r}: external data {key} is {text[:40]!r}, not a whole number")
    return int(text)


def tensor_bytes(tensor: Any) -> int | None:
    """Bytes that the tensor's dtype and shape take; None for strings and unknown types."""
    import onnx

    bits = {2: 8, 3: 8, 9: 8, 4: 16, 5: 16, 10: 16, 16: 16, 1: 32, 6: 32, 12: 32, 7: 64, 11: 64, 13: 64, 14: 64,
            15: 128, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4}.get(tensor.data_type)  # fmt: skip
    if bits is None or tensor.data_type == onnx.TensorProto.STRING:
        return None
    return (math.prod(int(dim) for dim in tensor.dims) * bits + 7) // 8
