"""Small models for the packager's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def gemm(inputs: int = 8, outputs: int = 4) -> Any:
    """``y = x @ w + b``; x FP32 ["N", inputs], opset 13."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(3)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="gemm")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", outputs])],
        [
            numpy_helper.from_array(rng.normal(size=(inputs, outputs)).astype(np.float32), "w"),
            numpy_helper.from_array(rng.normal(size=outputs).astype(np.float32), "b"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def save(model: Any, folder: Path, name: str = "model.onnx") -> Path:
    """Write it and return the path."""
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path
