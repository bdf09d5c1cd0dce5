"""ONNX fp32 -> int8 by ONNX Runtime's static quantisation: QDQ, activations uint8, weights int8 per channel.

Options: ``method`` minmax (default) | entropy | percentile: how activation ranges are taken from the calibration;
``keep_float``: names of nodes that stay float, separated by newlines; ``rank``: say which layers lost most.
Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from packager.converters import onnx_file
from packager.converters.converter import ConversionJob, Converted, Needs, Progress
from packager.converters.layer_ranking import ranking
from packager.converters.onnx_fp32 import simplify
from packager.errors import ConverterError
from packager.run_variant import one_line
from packager.samples import Sample, read_rows
from packager.sources.external_data import all_graphs
from packager.sources.onnx_graph import default_opset

MIN_OPSET = 13
"""The first in which DequantizeLinear has an axis."""
METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}


class OnnxInt8Static:
    """See the module."""

    name = "onnx_int8_static"
    needs = Needs(modules=("onnx", "onnxruntime"), calibration=True)
    spawns_own_process = False

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises ConverterError when nothing could be quantised."""
        out = Path(job.out)
        out.mkdir(parents=True, exist_ok=True)
        prepared, raw = out / "prepared.onnx", out / "raw.onnx"
        progress("preparing the graph")
        made = _prepare(Path(job.model), prepared)
        rows = read_rows(Path(job.calibration))
        progress(f"calibrating on {len(rows)} samples")
        made += _quantize(prepared, raw, rows, job.options)
        model = onnx_file.load(raw)
        notes = _require_quantized(model)
        _require_finite_scales(model)
        ranked = ranking(prepared, raw, rows) if "rank" in job.options else []
        for leftover in out.iterdir():
            leftover.unlink()
        entry = onnx_file.save(onnx_file.clean(model), out)
        tools = {name: version(name) for name in ("onnx", "onnxruntime")}
        return Converted(entry=entry, tools=tools, notes=[*made, *notes], ranking=ranked)


def _prepare(source: Path, target: Path) -> list[str]:
    """Simplified, its constants folded, with the operator set that quantisation per channel needs. Returns notes."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model, note = with_opset(simplify(onnx_file.load(source))[0])
    target.write_bytes(model.SerializeToString(deterministic=True))
    folded = target.with_suffix(".folded")
    try:
        quant_pre_process(str(target), str(folded), skip_symbolic_shape=True)
    except Exception:  # noqa: BLE001 - its optimiser refuses graphs that quantise well without it
        folded.unlink(missing_ok=True)
    else:
        folded.replace(target)
    _name_nodes(target)
    return [note] if note else []


def with_opset(model: Any) -> tuple[Any, str]:
    """The model with opset MIN_OPSET at least, and a note when it was raised. Raises ConverterError."""
    import onnx

    opset = default_opset(model) or 1
    if opset >= MIN_OPSET:
        return model, ""
    try:
        raised = onnx.version_converter.convert_version(model, MIN_OPSET)
    except Exception as error:  # a foreign converter raises what it likes
        reason = f"needs opset {MIN_OPSET}, and the model's {opset} cannot be raised: {one_line(error)}"
        raise ConverterError("onnx_int8_static", reason) from error
    return raised, f"opset raised from {opset} to {MIN_OPSET} for quantisation per channel"


def _name_nodes(path: Path) -> None:
    """Layers that are to stay float are told by name."""
    model = onnx_file.load(path)
    for place, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{place}"
    path.write_bytes(model.SerializeToString(deterministic=True))


def _quantize(source: Path, target: Path, rows: list[Sample], options: dict[str, str]) -> list[str]:
    """Per channel where that gives a model that opens, else per tensor. Returns notes. Raises ConverterError."""
    method = options.get("method", "minmax")
    if method not in METHODS:
        raise ConverterError("onnx_int8_static", f"method {method!r} is not one of {', '.join(METHODS)}")
    reason = ""
    for per_channel in (True, False):
        try:
            _quantize_once(source, target, rows, options, per_channel)
            _open(target)
        except Exception as error:  # noqa: BLE001 - the quantiser fails on some graphs, and writes models that the runtime refuses, in ways of its own
            reason = f"{type(error).__name__}: {one_line(error)}"
        else:
            return [] if per_channel else [f"quantised per tensor; per channel failed ({reason[:120]})"]
    raise ConverterError("onnx_int8_static", reason)


def _quantize_once(source: Path, target: Path, rows: list[Sample], options: dict[str, str], per_channel: bool) -> None:
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    quantize_static(
        str(source), str(target), _Reader(rows), quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=per_channel,
        calibrate_method=getattr(CalibrationMethod, METHODS[options.get("method", "minmax")]),
        nodes_to_exclude=[name for name in options.get("keep_float", "").split("\n") if name],
        extra_options={} if per_channel else {"QDQDisableWeightAdjustForInt32Bias": True},
    )  # fmt: skip


def _open(path: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class _Reader:
    """What quantize_static wants: one row at a time, then None."""

    def __init__(self, rows: list[Sample]) -> None:
        self._rows = rows
        self._at = 0

    def get_next(self) -> Sample | None:
        row = self._rows[self._at] if self._at < len(self._rows) else None
        self._at += 1
        return row

    def set_range(self, start_index: int, end_index: int) -> None:
        """Asked for when ranges are taken stride by stride."""
        self._rows, self._at = self._rows[start_index:end_index], 0

    def __len__(self) -> int:
        return len(self._rows)


def _require_quantized(model: Any) -> list[str]:
    """How much became int8: the quantiser leaves weights inside control flow float without a word."""
    stored = [tensor for graph in all_graphs(model) for tensor in graph.initializer]
    names = {tensor.name: tensor for tensor in stored}
    quantized = sum(
        1 for graph in all_graphs(model) for node in graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in names
    )  # fmt: skip
    floats = sum(1 for tensor in stored if tensor.data_type == 1 and len(tensor.dims) > 1)
    inside = sum(1 for graph in list(all_graphs(model))[1:] for tensor in graph.initializer if len(tensor.dims) > 1)
    where = f", {inside} of them inside control flow" if inside else ""
    if not quantized:
        raise ConverterError("onnx_int8_static", f"0 of {floats} weights can be quantised{where}")
    return [f"{quantized} of {quantized + floats} weights quantised; {floats} stay float{where}"] if floats else []


def _require_finite_scales(model: Any) -> None:
    import numpy as np
    from onnx import numpy_helper

    scales = {node.input[1] for graph in all_graphs(model) for node in graph.node
              if node.op_type in ("QuantizeLinear", "DequantizeLinear")}  # fmt: skip
    for graph in all_graphs(model):
        for tensor in graph.initializer:
            if tensor.name in scales and not np.isfinite(numpy_helper.to_array(tensor)).all():
                raise ConverterError("onnx_int8_static", f"the scale {tensor.name!r} came out as NaN or infinity")
