"""Which layers of a quantised ONNX model lose most: measured, layer by layer, on calibration samples.

Each quantised layer's output in the int8 model is compared with the same tensor of the float model; the relative error
of a layer is what it adds to that of its inputs. Largest first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from packager.samples import Sample

MAX_ROWS = 8
LAYERS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool",
          "Sigmoid", "Softmax", "LeakyRelu", "Resize"}  # fmt: skip
ABSORBED = {"Relu", "Clip"}
"""What may become the clipping of the quantiser behind it: the layer before then answers under its output's name."""


def ranking(prepared: Path, quantized: Path, rows: list[Sample]) -> list[str]:
    """Names of the prepared model's nodes. ``quantized`` keeps the tensor names of ``prepared``."""
    import onnx

    graph = onnx.load(str(prepared)).graph
    kept = {name for node in onnx.load(str(quantized)).graph.node for name in node.output}
    absorbed = {node.input[0]: node.output[0] for node in graph.node if node.op_type in ABSORBED}
    twins = {name: twin for node in graph.node for name in node.output if (twin := _twin(name, kept))}
    before, after = _outputs(prepared, list(twins), rows), _outputs(quantized, list(twins.values()), rows)
    errors = {name: _relative_error(before[name], after[twin]) for name, twin in twins.items()}
    added: dict[str, float] = {}
    for node in graph.node:
        output = node.output[0] if node.output[0] in errors else absorbed.get(node.output[0], "")
        if node.op_type in LAYERS and output in errors:
            added[node.name] = errors[output] - max((errors.get(name, 0.0) for name in node.input), default=0.0)
    return sorted(added, key=lambda name: (-added[name], name))


def _outputs(path: Path, names: list[str], rows: list[Sample]) -> dict[str, list[Any]]:
    import onnx
    import onnxruntime

    model = onnx.load(str(path))
    present = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in present)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    answers = [session.run(names, row) for row in rows[:MAX_ROWS]]
    return {name: [answer[index] for answer in answers] for index, name in enumerate(names)}


def _relative_error(before: list[Any], after: list[Any]) -> float:
    a = np.concatenate([np.asarray(array, np.float64).ravel() for array in before])
    b = np.concatenate([np.asarray(array, np.float64).ravel() for array in after])
    norm = float(np.linalg.norm(a))
    return float(np.linalg.norm(a - b)) / norm if norm else 0.0


def _twin(name: str, kept: set[str]) -> str | None:
    """The same tensor in the quantised model, after its quantisation where it is quantised."""
    return next((twin for twin in (f"{name}_DequantizeLinear_Output", name) if twin in kept), None)
