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
from packager.errors import ConverterError
from packager.samples import Sample, read_rows
from packager.sources.external_data import all_graphs

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
        _prepare(Path(job.model), prepared)
        rows = read_rows(Path(job.calibration))
        progress(f"calibrating on {len(rows)} samples")
        _quantize(prepared, raw, rows, job.options)
        model = onnx_file.load(raw)
        notes = _require_quantized(model)
        _require_finite_scales(model)
        ranked = ranking(prepared, raw, rows) if "rank" in job.options else []
        for leftover in out.iterdir():
            leftover.unlink()
        entry = onnx_file.save(onnx_file.clean(model), out)
        return Converted(entry=entry, tools={name: version(name) for name in ("onnx", "onnxruntime")}, notes=notes,
                         ranking=ranked)  # fmt: skip


def _prepare(source: Path, target: Path) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    try:
        quant_pre_process(str(source), str(target), skip_symbolic_shape=True)
    # Its optimiser refuses graphs that quantise well without it.
    except Exception:  # noqa: BLE001
        target.write_bytes(source.read_bytes())
    _name_nodes(target)


def _name_nodes(path: Path) -> None:
    """Layers that are to stay float are told by name."""
    model = onnx_file.load(path)
    for place, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{place}"
    path.write_bytes(model.SerializeToString(deterministic=True))


def _quantize(source: Path, target: Path, rows: list[Sample], options: dict[str, str]) -> None:
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    method = options.get("method", "minmax")
    if method not in METHODS:
        raise ConverterError("onnx_int8_static", f"method {method!r} is not one of {', '.join(METHODS)}")
    quantize_static(
        str(source), str(target), _Reader(rows), quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True,
        calibrate_method=getattr(CalibrationMethod, METHODS[method]),
        nodes_to_exclude=[name for name in options.get("keep_float", "").split("\n") if name],
    )  # fmt: skip


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
