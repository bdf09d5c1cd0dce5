"""Write ONNX models so that the same model gives the same bytes, without a word about where it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from packager.sources.external_data import all_graphs

FILE_NAME, DATA_NAME = "model.onnx", "model.onnx.data"
EMBED_MAX_BYTES = 256 * 1024 * 1024
ALIGNMENT_BYTES = 4096
"""Runtimes map external weights into memory; those at a page's start can be mapped as they are."""
_OWN_DOMAINS = {"", "ai.onnx"}


def load(path: Path) -> Any:
    """The model with its weights."""
    import onnx

    return onnx.load(str(path))


def clean(model: Any) -> Any:
    """Drop what says where and by whom the file was made (stack traces, too), and operator sets that nothing uses."""
    model.doc_string = ""
    model.producer_name = model.producer_version = ""
    del model.metadata_props[:]
    for graph in all_graphs(model):
        graph.doc_string = ""
        for holder in (graph, *graph.node, *graph.initializer, *graph.value_info, *graph.input, *graph.output):
            holder.doc_string = ""
            if hasattr(holder, "metadata_props"):
                del holder.metadata_props[:]
    _drop_unused_opsets(model)
    return model


def _drop_unused_opsets(model: Any) -> None:
    used = {node.domain for graph in all_graphs(model) for node in graph.node}
    used |= {node.domain for function in model.functions for node in function.node} | _OWN_DOMAINS
    kept = [item for item in model.opset_import if item.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def save(model: Any, folder: Path) -> str:
    """Write FILE_NAME, large weights into DATA_NAME beside it; returns FILE_NAME."""
    import onnx

    folder.mkdir(parents=True, exist_ok=True)
    weights = sum(len(tensor.raw_data) for graph in all_graphs(model) for tensor in graph.initializer)
    if weights <= EMBED_MAX_BYTES:
        (folder / FILE_NAME).write_bytes(model.SerializeToString(deterministic=True))
        return FILE_NAME
    onnx.external_data_helper.convert_model_to_external_data(model, location=DATA_NAME, size_threshold=1024)
    onnx.external_data_helper.write_external_data_tensors(model, str(folder))
    (folder / FILE_NAME).write_bytes(model.SerializeToString(deterministic=True))
    return FILE_NAME
