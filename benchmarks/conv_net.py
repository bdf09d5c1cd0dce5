"""A small convolutional net with seeded weights, as a laid-out bundle with one ONNX variant: speed only, no meaning."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from agent.inference.bundle_folder import BundleFolder, lay_out
from edge_contracts.archive import open_bundle
from edge_contracts.bundle import VariantSpec
from edge_contracts.golden import Golden
from edge_contracts.inference_wire import Tensor
from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec
from tests.simulators.bundle_factory import VariantFiles, write_variants

SIDE = 160
CLASSES = 10
CHANNELS = (3, 24, 48, 96, 192)
GOLDENS = 8


def conv_net_folder(folder: Path) -> BundleFolder:
    """Built, run once for its goldens, packed and laid out below ``folder``."""
    model = _model()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    goldens = []
    for _ in range(GOLDENS):
        image = rng.standard_normal((1, 3, SIDE, SIDE), dtype=np.float32)
        (scores,) = session.run(None, {"image": image})
        goldens.append(Golden([_tensor("image", image)], [_tensor("scores", scores)]))
    shape, answer = [1, 3, SIDE, SIDE], [1, CLASSES]
    spec = VariantSpec(
        name="onnxruntime-fp32-cpu", runtime="onnxruntime", entry="model.onnx", precision="fp32", target="cpu",
        opset=17, ir_version=8,
        inputs=[TensorBinding(name="image", source_name="image", dtype="FP32", shape=shape)],
        outputs=[TensorBinding(name="scores", source_name="scores", dtype="FP32", shape=answer)],
    )  # fmt: skip
    signature = Signature(
        inputs=[TensorSpec(name="image", dtype="FP32", shape=shape)],
        outputs=[TensorSpec(name="scores", dtype="FP32", shape=answer)],
    )  # fmt: skip
    archive = write_variants(
        folder / "conv.mindie", signature=signature, goldens=goldens, name="conv",
        variants=[VariantFiles(spec, {"model.onnx": model})],
    )  # fmt: skip
    return lay_out(open_bundle(archive), folder / "bundle")


def _model() -> bytes:
    rng = np.random.default_rng(1)
    nodes, weights, last = [], [], "image"
    for level, (inputs, outputs) in enumerate(itertools.pairwise(CHANNELS)):
        for part, (wide, stride) in enumerate(((inputs, 2), (outputs, 1))):
            name = f"{level}{part}"
            kernel = rng.standard_normal((outputs, wide, 3, 3), dtype=np.float32) / np.sqrt(9 * wide)
            weights.append(numpy_helper.from_array(kernel.astype(np.float32), f"w{name}"))
            nodes.append(helper.make_node("Conv", [last, f"w{name}"], [f"c{name}"], kernel_shape=[3, 3],
                                          pads=[1, 1, 1, 1], strides=[stride, stride]))  # fmt: skip
            nodes.append(helper.make_node("Relu", [f"c{name}"], [f"r{name}"]))
            last = f"r{name}"
    head = rng.standard_normal((CHANNELS[-1], CLASSES), dtype=np.float32) / np.sqrt(CHANNELS[-1])
    weights.append(numpy_helper.from_array(head.astype(np.float32), "head"))
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "head"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes, "conv", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])], weights,
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(proto.SerializeToString(deterministic=True))


def _tensor(name: str, array: np.ndarray) -> Tensor:
    return Tensor(name, "FP32", tuple(array.shape), array.astype("<f4").tobytes())
