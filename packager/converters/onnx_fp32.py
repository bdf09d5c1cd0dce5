"""ONNX -> ONNX in the source's own precision: cleaned, portable simplifications done, nothing else changed.

onnxslim folds constants and fuses what is fused on every machine (Conv with BatchNormalization); what depends on the
machine is left to the runtime there. Where it fails or the result is larger, the source stays as it is.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from packager.converters import onnx_file
from packager.converters.converter import ConversionJob, Converted, Needs, Progress
from packager.converters.onnx_shapes import fix_shapes
from packager.sources.onnx_graph import default_opset

MAX_SLIM_BYTES = 512 * 1024 * 1024
GROWTH_LIMIT = 1.05


class OnnxFp32:
    """See the module."""

    name = "onnx_fp32"
    needs = Needs(modules=("onnx",))
    spawns_own_process = False

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises what onnx raises when it cannot write."""
        progress("simplifying the graph")
        model = fix_shapes(onnx_file.load(Path(job.model)), job.fixed_shapes)
        simplified, note = simplify(model)
        entry = onnx_file.save(onnx_file.clean(simplified), Path(job.out))
        tools = {"onnx": version("onnx")}
        return Converted(entry=entry, tools=tools if note else {**tools, "onnxslim": version("onnxslim")},
                         notes=[note] if note else [])  # fmt: skip


def simplify(model: Any) -> tuple[Any, str]:
    """The simplified model, or the model itself and why."""
    size = model.ByteSize()
    if size > MAX_SLIM_BYTES:
        return model, f"left as exported: {size >> 20} MB is too large to simplify"
    try:
        import onnxslim
    except ModuleNotFoundError:
        return model, "left as exported: onnxslim is not installed"
    before = (_interface(model), default_opset(model), model.ir_version)
    copy = type(model)()
    copy.CopyFrom(model)
    try:
        slim = onnxslim.slim(copy)
    except Exception as error:  # noqa: BLE001 - a foreign optimiser raises what it likes; the model is good without it
        return model, f"left as exported: onnxslim failed ({type(error).__name__})"
    if slim is None or slim.ByteSize() > size * GROWTH_LIMIT or _interface(slim) != before[0]:
        return model, "left as exported: simplifying gained nothing"
    slim.ir_version = min(slim.ir_version, before[2])
    return (slim, "") if default_opset(slim) == before[1] else (model, "left as exported: onnxslim changed the opset")


def _interface(model: Any) -> tuple[list[str], list[str]]:
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in stored]
    return inputs, [value.name for value in model.graph.output]
