"""ONNX fp32 -> int8 weights, activations quantised while running: no calibration, for models of matrix products.

Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from packager.converters import onnx_file
from packager.converters.converter import ConversionJob, Converted, Needs, Progress
from packager.errors import ConverterError
from packager.sources.external_data import all_graphs

OPERATORS = ["MatMul", "Gemm", "Attention", "LSTM", "Gather", "EmbedLayerNormalization"]
"""Convolutions stay float: ConvInteger is slower than Conv on most CPUs, and missing on some."""
QUANTIZED = {"MatMulInteger", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "QAttention", "QEmbedLayerNormalization"}


class OnnxInt8Dynamic:
    """See the module."""

    name = "onnx_int8_dynamic"
    needs = Needs(modules=("onnx", "onnxruntime"))
    spawns_own_process = False

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises ConverterError when nothing was quantised: the tool leaves control flow float without a word."""
        from onnxruntime.quantization import QuantType, quantize_dynamic

        out = Path(job.out)
        out.mkdir(parents=True, exist_ok=True)
        raw = out / "raw.onnx"
        progress("quantising the weights")
        quantize_dynamic(
            job.model, str(raw), weight_type=QuantType.QInt8, per_channel=False, op_types_to_quantize=OPERATORS,
            extra_options={"EnableSubgraph": True},
        )  # fmt: skip
        model = onnx_file.load(raw)
        notes = _require_quantized(model)
        raw.unlink()
        entry = onnx_file.save(onnx_file.clean(model), out)
        return Converted(entry=entry, tools={name: version(name) for name in ("onnx", "onnxruntime")}, notes=notes)


def _require_quantized(model: Any) -> list[str]:
    graphs = list(all_graphs(model))
    quantized = sum(node.op_type in QUANTIZED for graph in graphs for node in graph.node)
    floats = [
        tensor for graph in graphs for tensor in graph.initializer if tensor.data_type == 1 and len(tensor.dims) > 1
    ]
    if not quantized:
        inside = sum(1 for graph in graphs[1:] for _ in graph.initializer)
        where = " (control flow)" if inside else ""
        raise ConverterError("onnx_int8_dynamic", f"0 of {len(floats)} weights can be quantised{where}")
    return [f"{quantized} operators quantised, {len(floats)} weights stay float"]
