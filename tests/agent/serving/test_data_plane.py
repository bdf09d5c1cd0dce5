"""The protocol as clients see it, on a real server with a real engine."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from agent.inference.bundle_folder import BundleFolder, lay_out
from edge_contracts.archive import open_bundle
from edge_contracts.bundle import VariantSpec
from edge_contracts.golden import Golden, decode_goldens
from edge_contracts.inference_wire import Tensor, decode_binary_body, encode_request, join_bytes_elements
from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec
from tests.agent.serving.running import (
    Running,
    close_to,
    expected,
    http_post,
    infer_json,
    running,
    sample_rows,
    served,
    stub_folder,
)
from tests.simulators.bundle_factory import VariantFiles, seeded_affine, write_variants

FIELD_INPUTS = Path(__file__).parent / "field_inputs"
FIELD_BODIES = [path for path in sorted(FIELD_INPUTS.glob("C*")) if path.suffix in (".bin", ".json")]
PLAIN = infer_json(sample_rows(1))


def test_triton_client_sees_a_live_server_with_a_ready_model(affine: Running) -> None:
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(f"127.0.0.1:{affine.port}")
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("affine")
    assert client.is_model_ready("affine", "1.0.0")
    assert not client.is_model_ready("affine", "2.0.0")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert client.get_model_metadata("affine")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
    assert client.get_model_config("affine", "1.0.0")["backend"] == "stub"
    assert client.get_model_repository_index() == [
        {"name": "affine", "version": "1.0.0", "state": "READY", "reason": ""}
    ]
    assert client.get_inference_statistics("affine")["model_stats"][0]["name"] == "affine"
    assert client.get_inference_statistics()["model_stats"][0]["version"] == "1.0.0"


@pytest.mark.parametrize("rows", [1, 3, 5000])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("packed", [None, "gzip", "deflate"])
def test_triton_client_gets_right_answers_in_every_form(
    affine: Running, rows: int, binary: bool, packed: str | None
) -> None:
    triton = pytest.importorskip("tritonclient.http")
    client = triton.InferenceServerClient(f"127.0.0.1:{affine.port}")
    x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
    tensor = triton.InferInput("x", [rows, 8], "FP32")
    tensor.set_data_from_numpy(x, binary_data=binary)
    wanted = [triton.InferRequestedOutput("logits", binary_data=binary)]
    result = client.infer(
        "affine", [tensor], outputs=wanted, request_id="one", request_compression_algorithm=packed,
        response_compression_algorithm=packed,
    )  # fmt: skip
    model = seeded_affine()
    right = x @ np.array(model.weight, dtype=np.float32) + np.array(model.bias, dtype=np.float32)
    assert np.allclose(result.as_numpy("logits"), right, atol=1e-4)
    assert result.get_response()["id"] == "one"
    client.close()


def test_triton_client_of_asyncio_works(affine: Running) -> None:
    triton = pytest.importorskip("tritonclient.http.aio")

    async def ask() -> Any:
        async with triton.InferenceServerClient(f"127.0.0.1:{affine.port}") as client:
            tensor = triton.InferInput("x", [1, 8], "FP32")
            tensor.set_data_from_numpy(np.ones((1, 8), dtype=np.float32))
            answers = await asyncio.gather(*(client.infer("affine", [tensor]) for _ in range(20)))
            return [answer.as_numpy("logits").tolist() for answer in answers]

    answers = asyncio.run(ask())
    assert all(close_to(answer[0], expected([[1.0] * 8])) for answer in answers)


def test_goldens_are_what_curl_may_send(affine: Running, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = stub_folder(tmp_path_factory.mktemp("goldens"))
    golden = decode_goldens(folder.goldens_file.read_bytes())[0]
    body, length = encode_request(golden.inputs)
    answer = requests.post(
        f"{affine.url}/v2/models/affine/infer", data=body, timeout=60,
        headers={"Inference-Header-Content-Length": str(length)},
    )  # fmt: skip
    outputs = decode_binary_body(answer.content, int(answer.headers["Inference-Header-Content-Length"]))
    assert outputs[0].shape == (1, 4)
    assert close_to(list(struct.unpack("<4f", outputs[0].data)), list(struct.unpack("<4f", golden.outputs[0].data)))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_sends_a_large_body_with_expect_continue(affine: Running, tmp_path: Path) -> None:
    body, length = encode_request([Tensor("x", "FP32", (100_000, 8), bytes(3_200_000))])
    (tmp_path / "body").write_bytes(body)
    command = ["curl", "-s", "-S", "--max-time", "60", "-H", f"Inference-Header-Content-Length: {length}",
               "-H", "Expect: 100-continue", "--data-binary", f"@{tmp_path / 'body'}", "-o", str(tmp_path / "answer"),
               "-w", "%{http_code}", f"{affine.url}/v2/models/affine/infer"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "200"
    assert (tmp_path / "answer").stat().st_size > 100_000 * 16


def test_a_unix_socket_serves_beside_tcp(folder: Path) -> None:
    with running(uds=folder / "s.sock") as server:
        server.process.load(served(stub_folder(folder)))
        with server_socket(folder / "s.sock") as connection:
            connection.sendall(http_post(infer_json(sample_rows(1))))
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
    assert not (folder / "s.sock").exists()


def test_strings_pass_through_and_hostile_ones_are_refused(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    words = ["", "a", "日本語", "x" * 20_000]
    data = join_bytes_elements([word.encode() for word in words])
    with running() as server:
        server.process.load(served(string_identity(folder), options={"threads": 1}))
        path = "/v2/models/strings/infer"
        body, length = encode_request([Tensor("s", "BYTES", (4,), data)])
        status, headers, answer = server.request("POST", path, body, Inference_Header_Content_Length=str(length))
        assert status == 200, answer
        assert decode_binary_body(answer, int(headers["inference-header-content-length"]))[0].data == data
        entry = {"name": "s", "shape": [4], "datatype": "BYTES", "data": words}
        status, _, answer = server.request("POST", path, json.dumps({"inputs": [entry]}))
        assert status == 200, answer
        assert json.loads(answer)["outputs"][0]["data"] == words
        for name in ("fewer_elements_than_shape", "len_prefix_too_big", "trailing_garbage"):
            hostile = (FIELD_INPUTS / f"C17_bytes_{name}.bin").read_bytes()
            assert server.request("POST", path, hostile, Inference_Header_Content_Length="101")[0] == 400
        # this runtime carries UTF-8 only: it says so, for this request
        beyond = (FIELD_INPUTS / "C17_bytes_ok_with_empty_and_non_utf8.bin").read_bytes()
        status, _, answer = server.request("POST", path, beyond, Inference_Header_Content_Length="102")
        assert status == 400
        assert "utf-8" in json.loads(answer)["error"]


def string_identity(folder: Path) -> BundleFolder:
    """The field input C17 as a bundle."""
    spec = VariantSpec(
        name="onnx", runtime="onnxruntime", target="cpu", precision="fp32", entry="m.onnx",
        inputs=[TensorBinding(name="s", source_name="s", dtype="BYTES", shape=["n"])],
        outputs=[TensorBinding(name="y", source_name="y", dtype="BYTES", shape=["n"])],
    )  # fmt: skip
    signature = Signature(
        inputs=[TensorSpec(name="s", dtype="BYTES", shape=["n"])],
        outputs=[TensorSpec(name="y", dtype="BYTES", shape=["n"])],
    )
    golden = Tensor("s", "BYTES", (1,), join_bytes_elements([b"a"]))
    model = (FIELD_INPUTS / "C17_string_identity.onnx").read_bytes()
    archive = write_variants(
        folder / "s.mindie", signature=signature, variants=[VariantFiles(spec, {"m.onnx": model})], name="strings",
        goldens=[Golden([golden], [Tensor("y", "BYTES", (1,), golden.data)])],
    )  # fmt: skip
    return lay_out(open_bundle(archive), folder / "strings")


def server_socket(path: Path) -> Any:
    import socket

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(10)
    connection.connect(str(path))
    return connection


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nope", 404), ("GET", "/v2/models", 404), ("GET", "/v2/models/nope", 404),
     ("POST", "/v2/models/nope/infer", 404), ("GET", "/v2/models/affine/versions/9.9.9", 404),
     ("GET", "/v2/models/affine/nope", 404), ("GET", "/v2/models/affine/ready/nope", 404),
     ("GET", "/v2/models/affine/infer", 405), ("POST", "/v2/models/affine", 405), ("DELETE", "/v2", 405),
     ("PUT", "/v2/models/affine/infer", 405), ("POST", "/v2/health/live", 405), ("GET", "/v2/repository/index", 405),
     ("GET", "/v2/models/%61ffine", 200), ("GET", "/v2/models/a%ffine", 404), ("GET", "/v2/", 200),
     ("GET", "/v2/health/live?x=1", 200), ("GET", "/v2/models/stats", 200), ("GET", "/v2/models/affine/stats", 200)],
)  # fmt: skip
def test_each_path_answers_its_own_methods_with_json(affine: Running, method: str, path: str, status: int) -> None:
    got, headers, body = affine.request(method, path)
    assert got == status
    document = json.loads(body)
    if status >= 400:
        assert list(document) == ["error"]
    assert ("allow" in headers) == (status == 405)


def test_head_has_the_headers_of_get_and_no_body(affine: Running) -> None:
    status, headers, body = affine.request("HEAD", "/v2/models/affine")
    _, got_headers, got = affine.request("GET", "/v2/models/affine")
    assert (status, body) == (200, b"")
    assert headers["content-length"] == got_headers["content-length"] == str(len(got))


@pytest.mark.parametrize("path", FIELD_BODIES, ids=lambda path: path.name)
def test_every_field_input_is_answered_400_with_a_json_error(affine: Running, path: Path) -> None:
    headers = {}
    if path.with_suffix(".headers").exists():
        lines = path.with_suffix(".headers").read_text().splitlines()
        headers = dict(line.split(": ") for line in lines if line)
    status, _, body = affine.request("POST", "/v2/models/affine/infer", path.read_bytes(), **headers)
    assert status == 400
    assert json.loads(body)["error"]
    assert affine.infer(sample_rows(2))[0] == 200


def test_a_refused_request_leaves_the_connection_usable(affine: Running) -> None:
    bad, good = http_post(b"{}"), http_post(infer_json(sample_rows(3)))
    answers = affine.raw(bad + good)
    assert answers.count(b"HTTP/1.1 400") == 1
    assert answers.count(b"HTTP/1.1 200") == 1


def test_pipelined_requests_are_answered_in_order(affine: Running) -> None:
    bodies = [infer_json(sample_rows(number, rows=1 + number % 3)) for number in range(40)]
    requests_ = [http_post(body) if n % 5 else b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n" for n, body in enumerate(bodies)]
    answers = affine.raw(b"".join(requests_)).split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert len(answers) == 40
    for number, answer in enumerate(answers):
        document = json.loads(answer.split(b"\r\n\r\n", 1)[1])
        if number % 5 == 0:
            assert document["name"] == "mindie"
        else:
            want = expected(sample_rows(number, rows=1 + number % 3))
            assert close_to(document["outputs"][0]["data"], want)


def test_a_request_that_comes_byte_by_byte_is_answered(affine: Running) -> None:
    import socket

    data = http_post(infer_json(sample_rows(4)))
    with socket.create_connection(("127.0.0.1", affine.port), timeout=60) as connection:
        for position in range(len(data)):
            connection.sendall(data[position : position + 1])
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")


def test_chunked_bodies_are_accepted(affine: Running) -> None:
    body = infer_json(sample_rows(5))
    answer = requests.post(
        f"{affine.url}/v2/models/affine/infer", data=iter([body[:10], body[10:11], body[11:]]), timeout=60
    )
    assert answer.status_code == 200
    assert close_to(answer.json()["outputs"][0]["data"], expected(sample_rows(5)))


def test_a_large_chunked_binary_body_is_accepted(affine: Running) -> None:
    body, length = encode_request([Tensor("x", "FP32", (20_000, 8), bytes(640_000))])
    answer = requests.post(
        f"{affine.url}/v2/models/affine/infer", data=iter([body[:100], body[100:300_001], body[300_001:]]), timeout=60,
        headers={"Inference-Header-Content-Length": str(length)},
    )  # fmt: skip
    assert answer.status_code == 200
    outputs = decode_binary_body(answer.content, int(answer.headers["Inference-Header-Content-Length"]))
    assert close_to(list(struct.unpack("<80000f", outputs[0].data))[:4], expected([[0.0] * 8]))


@pytest.mark.parametrize("offset", range(8))
def test_a_binary_tensor_is_right_wherever_it_begins_in_the_body(affine: Running, offset: int) -> None:
    rows = sample_rows(6, rows=1000)
    data = struct.pack("<8000f", *(value for row in rows for value in row))
    entry = {"name": "x", "shape": [1000, 8], "datatype": "FP32", "parameters": {"binary_data_size": len(data)}}
    header = json.dumps({"inputs": [entry], "id": "i" * offset}).encode()
    status, _, body = affine.request(
        "POST", "/v2/models/affine/infer", header + data, Inference_Header_Content_Length=str(len(header))
    )
    assert status == 200
    assert close_to(json.loads(body)["outputs"][0]["data"], expected(rows))


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [("gzip", gzip.compress(PLAIN), 200), ("deflate", zlib.compress(PLAIN), 200), ("identity", PLAIN, 200),
     ("GZIP", gzip.compress(PLAIN), 200), ("gzip", b"not gzip", 400), ("gzip", gzip.compress(PLAIN)[:-9], 400),
     ("gzip", b"", 400), ("gzip", gzip.compress(PLAIN) + b"more", 400), ("br", b"x", 400),
     ("gzip", gzip.compress(bytes(100_000_000)), 413)],
)  # fmt: skip
def test_packed_bodies_are_unpacked_within_bounds(affine: Running, encoding: str, body: bytes, status: int) -> None:
    got, _, answer = affine.request("POST", "/v2/models/affine/infer", body, Content_Encoding=encoding)
    assert got == status, answer
    assert ("error" in json.loads(answer)) == (status != 200)


def test_metrics_are_prometheus_text_with_tritons_stems(affine: Running) -> None:
    affine.infer(sample_rows(7))
    status, headers, body = affine.request("GET", "/metrics")
    text = body.decode()
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    for line in samples:
        float(line.rsplit(" ", 1)[1])
    success = next(line for line in samples if line.startswith("nv_inference_request_success"))
    assert float(success.rsplit(" ", 1)[1]) >= 1
    for stem in ("request_failure", "count", "exec_count", "request_duration_us", "queue_duration_us",
                 "compute_input_duration_us", "compute_infer_duration_us", "compute_output_duration_us",
                 "pending_request_count"):  # fmt: skip
        assert f"# TYPE nv_inference_{stem} " in text


def test_statistics_are_drained_by_stage_once(affine: Running) -> None:
    affine.process.drain_stats()
    for number in range(5):
        affine.infer(sample_rows(number))
    affine.infer([[0.0] * 7])
    drained = affine.process.drain_stats()[("affine", "1.0.0")]
    assert drained.requests == 5
    assert set(drained.stages) == {"queue", "input", "infer", "output", "total"}
    assert all(sum(sketch.buckets.values()) == 5 for sketch in drained.stages.values())
    assert drained.stages["total"].sum_us >= drained.stages["infer"].sum_us
    assert affine.process.drain_stats() == {}


def test_an_unknown_output_and_an_unsupported_parameter_are_400(affine: Running) -> None:
    document = json.loads(infer_json(sample_rows(1)))
    document["outputs"] = [{"name": "nope"}]
    status, _, body = affine.request("POST", "/v2/models/affine/infer", json.dumps(document))
    assert status == 400
    assert "logits" in json.loads(body)["error"]


def test_the_repository_index_takes_no_body_and_checks_the_one_it_gets(affine: Running) -> None:
    assert affine.request("POST", "/v2/repository/index")[0] == 200
    assert affine.request("POST", "/v2/repository/index", b'{"ready": true}')[0] == 200
    assert affine.request("POST", "/v2/repository/index", b'{"ready": 3}')[0] == 400
    assert affine.request("POST", "/v2/repository/index", b"[" * 50_000)[0] == 400


def test_the_client_in_the_documentation_works(affine: Running, tmp_path: Path) -> None:
    document = (Path(__file__).parents[3] / "docs" / "serving.md").read_text()
    code = document.split("```python\n")[1].split("```")[0]
    (tmp_path / "client.py").write_text(code)
    url = f"{affine.url}/v2/models/affine/infer"
    done = subprocess.run([sys.executable, tmp_path / "client.py", url], capture_output=True, text=True, check=True)
    assert "logits" in done.stdout
    command = document.split("## curl\n\n")[1].split("\n\n")[0].replace("http://127.0.0.1:8000", affine.url)
    if shutil.which("curl") is not None:
        answer = subprocess.run(command, shell=True, capture_output=True, check=True).stdout
        assert close_to(json.loads(answer)["outputs"][0]["data"], expected([[1, 2, 3, 4, 5, 6, 7, 8]]))
