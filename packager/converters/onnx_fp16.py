"""ONNX fp32 -> fp16 weights and computation; inputs and outputs stay fp32.

onnxruntime.transformers.float16 is used, which keeps operators without a half-precision kernel in fp32 (onnxconverter-
common wrote a model that the runtime refuses).
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from packager.converters import onnx_file
from packager.converters.converter import ConversionJob, Converted, Needs, Progress
from packager.converters.onnx_fp32 import simplify
from packager.converters.onnx_shapes import fix_shapes


class OnnxFp16:
    """See the module."""

    name = "onnx_fp16"
    needs = Needs(modules=("onnx", "onnxruntime"))
    spawns_own_process = False

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises what the tool raises."""
        from onnxruntime.transformers.float16 import convert_float_to_float16

        model = fix_shapes(onnx_file.load(Path(job.model)), job.fixed_shapes)
        progress("simplifying the graph")
        simplified, note = simplify(model)
        progress("halving the weights")
        half = convert_float_to_float16(simplified, keep_io_types=True)
        half.ir_version = model.ir_version
        entry = onnx_file.save(onnx_file.clean(half), Path(job.out))
        tools = {name: version(name) for name in ("onnx", "onnxruntime")}
        return Converted(entry=entry, tools=tools, notes=[note] if note else [])
