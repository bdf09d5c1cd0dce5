"""Requests per second and latency of the data plane, against the same model in a Starlette app, in one interleaved run.

    python -m benchmarks.serving [--rounds 5] [--seconds 2] [--json OUT.json]

Needs onnx, onnxruntime, uvicorn, starlette, uvloop, httptools. Server (and engine) are bound to one CPU, the client to
another; ONNX Runtime has one thread in both. Two models: ``tiny`` (8 numbers in, JSON) and ``image`` (3x224x224 floats
in binary). CPU time per request is what a busy neighbour falsifies least. The best round of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent.inference.bundle_folder import BundleFolder, lay_out
from agent.serving.control import ServedModel
from agent.serving.process import Bind, ServerProcess
from edge_contracts.archive import open_bundle
from edge_contracts.bundle import VariantSpec
from edge_contracts.golden import Golden
from edge_contracts.inference_wire import Tensor, encode_request
from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec
from tests.simulators.bundle_factory import VariantFiles, onnx_bundle, write_variants

HERE = Path(__file__).parent
SERVER_CPU, CLIENT_CPU = 0, 1
IMAGE_SHAPE = [1, 3, 224, 224]


@dataclass
class Result:
    """The best round of one server, model and number of clients."""

    model: str
    clients: int
    server: str
    requests_per_s: float
    p50_us: float
    p99_us: float
    cpu_us: float


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


def request_bytes(model: str, body: bytes, header_length: int | None) -> bytes:
    binary = "" if header_length is None else f"Inference-Header-Content-Length: {header_length}\r\n"
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{binary}\r\n"
    return head.encode() + body


def write_requests(folder: Path) -> dict[str, Path]:
    entry = {"name": "x", "shape": [1, 8], "datatype": "FP32", "data": [0.5, 0.25, 0.125, 1.0, 2.0, 3.0, 4.0, 5.0]}
    bodies = {"tiny": (json.dumps({"inputs": [entry]}).encode(), None), "image": encode_request([image_tensor()])}
    for name, (body, length) in bodies.items():
        (folder / f"{name}.request").write_bytes(request_bytes(name, body, length))
    return {name: folder / f"{name}.request" for name in bodies}


def cpu_us(pids: list[int]) -> float:
    """CPU time of all threads of these processes."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


def one_load(port: int, clients: int, seconds: float, request: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        HERE / "serving_load.py",
        str(port),
        str(clients),
        str(seconds),
        str(CLIENT_CPU),
        request,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def start_starlette(model: Path, port: int) -> subprocess.Popen[bytes]:
    command = ["taskset", "-c", str(SERVER_CPU), sys.executable, "-m", "uvicorn", "--port", str(port), "--log-level",
               "error", "--no-access-log", "serving_starlette:app"]  # fmt: skip
    process = subprocess.Popen(command, cwd=HERE, env={**os.environ, "MODEL": str(model)})
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1)
        except urllib.error.HTTPError:
            return process
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    sys.exit("the Starlette app did not start: pip install starlette uvicorn")


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(
    servers: dict[tuple[str, str], tuple[int, Callable[[], list[int]]]], requests: dict[str, Path], rounds: int,
    seconds: float,
) -> list[Result]:  # fmt: skip
    best: dict[tuple[str, int, str], Result] = {}
    for _ in range(rounds):
        for (server, model), (port, pids) in servers.items():
            for clients in (1, 8):
                before = cpu_us(pids())
                load = one_load(port, clients, seconds, requests[model])
                result = Result(model, clients, server, load["requests_per_s"], load["p50_us"], load["p99_us"],
                                (cpu_us(pids()) - before) / load["requests"])  # fmt: skip
                key = (model, clients, server)
                if key not in best or result.requests_per_s > best[key].requests_per_s:
                    best[key] = result
    return sorted(best.values(), key=lambda one: (one.model, one.clients, one.server))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        tiny = lay_out(open_bundle(onnx_bundle(folder / "tiny.mindie", name="tiny")), folder / "tiny")
        bundles = {"tiny": tiny, "image": image_bundle(folder)}
        requests = write_requests(folder)
        server = ServerProcess()
        port = server.start(Bind(port=0), affinity=frozenset({SERVER_CPU}))
        apps: list[subprocess.Popen[bytes]] = []
        servers: dict[tuple[str, str], tuple[int, Callable[[], list[int]]]] = {}
        try:
            for name, bundle in bundles.items():
                variant = bundle.bundle.variants[0]
                server.load(ServedModel(name=name, version="1.0.0", digest=bundle.bundle.digest, variant=variant.name,
                                        folder=str(bundle.folder), options={"threads": 1}))  # fmt: skip
                file = bundle.variant_folder(variant.name) / variant.spec.entry
                app_port = free_port()
                apps.append(start_starlette(file, app_port))
                servers["starlette", name] = (app_port, lambda pid=apps[-1].pid: [pid])  # type: ignore[misc]
                state = server.snapshot()
                servers["mindie", name] = (port, lambda state=state: [state.pid, *state.engine_pids])  # type: ignore[misc]
            results = measure(servers, requests, args.rounds, args.seconds)
            state = server.snapshot()
        finally:
            for app in apps:
                app.terminate()
            server.stop(0.0)
    print(f"{'model':6} {'clients':>7} {'server':10} {'req/s':>8} {'p50 us':>8} {'p99 us':>8} {'CPU us/req':>10}")
    for one in results:
        print(f"{one.model:6} {one.clients:7} {one.server:10} {one.requests_per_s:8.0f} {one.p50_us:8.0f} "
              f"{one.p99_us:8.0f} {one.cpu_us:10.0f}")  # fmt: skip
    print(f"RSS: server {state.rss_mb:.0f} MB, engine {state.engine_rss_mb:.0f} MB")
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in results], indent=1))


if __name__ == "__main__":
    main()
