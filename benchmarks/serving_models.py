"""The two models of the serving benchmark and their requests: ``tiny`` (8 numbers, JSON), ``image`` (binary)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from agent.inference.bundle_folder import BundleFolder, lay_out
from edge_contracts.archive import open_bundle
from edge_contracts.bundle import VariantSpec
from edge_contracts.golden import Golden
from edge_contracts.inference_wire import Tensor, encode_request
from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec
from tests.simulators.bundle_factory import VariantFiles, onnx_bundle, write_variants

IMAGE_SHAPE = [1, 3, 224, 224]
TINY_BODY = {
    "inputs": [{"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [0.5, 0.25, 0.125, 1.0, 2.0, 3.0, 4.0, 5.0]}]
}


def bundles(folder: Path) -> dict[str, BundleFolder]:
    """Both, laid out below ``folder``."""
    tiny = lay_out(open_bundle(onnx_bundle(folder / "tiny.mindie", name="tiny")), folder / "tiny")
    return {"tiny": tiny, "image": image_bundle(folder)}


def image_bundle(folder: Path) -> BundleFolder:
    """A small convolution, so that what the server adds can be seen."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    first = rng.standard_normal((16, 3, 3, 3)).astype(np.float32)
    last = rng.standard_normal((1000, 16)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]), helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "last"], ["logits"], transB=1),
    ]  # fmt: skip
    shape: list[int | str] = ["batch", *IMAGE_SHAPE[1:]]
    graph = helper.make_graph(
        nodes, "image", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1000])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(last, "last")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    output: list[int | str] = ["batch", 1000]
    spec = VariantSpec(
        name="onnx", runtime="onnxruntime", target="cpu", precision="fp32", entry="m.onnx",
        inputs=[TensorBinding(name="x", source_name="x", dtype="FP32", shape=shape)],
        outputs=[TensorBinding(name="logits", source_name="logits", dtype="FP32", shape=output)],
    )  # fmt: skip
    signature = Signature(
        inputs=[TensorSpec(name="x", dtype="FP32", shape=shape)],
        outputs=[TensorSpec(name="logits", dtype="FP32", shape=output)],
    )
    golden = Golden([image_tensor()], [Tensor("logits", "FP32", (1, 1000), bytes(4000))])
    archive = write_variants(
        folder / "image.mindie", signature=signature, goldens=[golden], name="image",
        variants=[VariantFiles(spec, {"m.onnx": model.SerializeToString()})],
    )  # fmt: skip
    return lay_out(open_bundle(archive), folder / "image")


def image_tensor() -> Tensor:
    return Tensor("x", "FP32", tuple(IMAGE_SHAPE), bytes(4 * 3 * 224 * 224))


def request_bytes(path: str, body: bytes, header_length: int | None = None) -> bytes:
    """A whole HTTP/1.1 POST."""
    binary = "" if header_length is None else f"Inference-Header-Content-Length: {header_length}\r\n"
    kind = "application/json" if header_length is None else "application/octet-stream"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{binary}\r\n"
    return head.encode() + body


def write_requests(folder: Path) -> dict[str, Path]:
    """Files with the request for each model, and "litserve" for its path."""
    tiny = json.dumps(TINY_BODY).encode()
    contents = {
        "tiny": request_bytes("/v2/models/tiny/infer", tiny),
        "image": request_bytes("/v2/models/image/infer", *encode_request([image_tensor()])),
        "litserve": request_bytes("/predict", tiny),
    }
    for name, content in contents.items():
        (folder / f"{name}.request").write_bytes(content)
    return {name: folder / f"{name}.request" for name in contents}
