"""What a client may not do to the server: every bound holds and is answered."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import requests

from agent.errors import PortInUse, ServingError
from agent.serving.control import ServingOptions
from agent.serving.process import Bind, ServerProcess
from tests.agent.serving.running import (
    WARM_UP_RUNS,
    Running,
    close_to,
    expected,
    http_post,
    infer_json,
    read_all,
    running,
    sample_rows,
    served,
    stub_folder,
    wait_for,
)


def body_of(answer: bytes) -> Any:
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def test_a_body_beyond_the_limit_is_413_and_the_answer_can_be_read(folder: Path) -> None:
    with running(ServingOptions(max_body_bytes=100_000)) as server:
        server.process.load(served(stub_folder(folder)))
        answer = server.raw(http_post(bytes(5_000_000)))
        assert answer.startswith(b"HTTP/1.1 413")
        assert "100000" in body_of(answer)["error"]
        chunks = b"POST /v2/models/affine/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks += (b"8000\r\n" + bytes(0x8000) + b"\r\n") * 10
        assert server.raw(chunks).startswith(b"HTTP/1.1 413")
        expect = "Expect: 100-continue\r\n"
        assert server.raw(http_post(b"", headers=expect).replace(b"Content-Length: 0", b"Content-Length: 999999")
                          ).startswith(b"HTTP/1.1 413")  # fmt: skip
        assert server.infer(sample_rows(1))[0] == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
     (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
     (b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 400_000, 431),
     (b"\x16\x03\x01\x02\x00\x01\x00", 400), (b"hello\r\n\r\n", 400), (b"GET /v2 HTTP/9.9\r\n\r\n", 400),
     (b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
     (b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
     (b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
     (b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
     (b"GET /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", 400)],
)  # fmt: skip
def test_what_is_no_proper_request_is_refused_and_the_connection_closed(
    affine: Running, data: bytes, status: int
) -> None:
    answer = affine.raw(data)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert b"Connection: close" in answer
    assert body_of(answer)["error"]
    assert affine.request("GET", "/v2/health/live")[0] == 200


def test_an_upgrade_is_ignored(affine: Running) -> None:
    answer = affine.raw(b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


def test_http_1_0_and_connection_close_are_honoured(affine: Running) -> None:
    assert b"Connection: close" in affine.raw(b"GET /v2 HTTP/1.0\r\n\r\n")
    assert b"Connection: close" in affine.raw(b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


def test_a_client_that_sends_too_slowly_is_told_so(folder: Path) -> None:
    with running(ServingOptions(receive_timeout_s=0.3, idle_timeout_s=0.3)) as server:
        server.process.load(served(stub_folder(folder)))
        assert server.raw(b"POST /v2/models/affine/infer HTTP/1.1\r\nHo").startswith(b"HTTP/1.1 408")
        partial = http_post(bytes(200_000), headers="Inference-Header-Content-Length: 10\r\n")[:2_000]
        assert server.raw(partial).startswith(b"HTTP/1.1 408")
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as silent:
            assert silent.recv(1) == b"", "it was closed"


def test_connections_beyond_the_limit_get_503(folder: Path) -> None:
    with running(ServingOptions(max_connections=4)) as server, contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        wait_for(lambda: server.process.snapshot().connections == 4)
        assert b"HTTP/1.1 503" in server.raw(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")


def test_health_answers_at_once_while_inference_runs(folder: Path) -> None:
    with running() as server:
        server.process.load(served(stub_folder(folder, behaviour={"delay_us": 400_000})))
        clients = [threading.Thread(target=server.infer, args=(sample_rows(n),)) for n in range(5)]
        for client in clients:
            client.start()
        wait_for(lambda: server.process.snapshot().models[0].in_flight)
        assert server.request("GET", "/v2/health/ready")[0] == 200
        assert server.process.snapshot().models[0].in_flight, "it was answered before the inferences were done"
        for client in clients:
            client.join()


def test_a_full_queue_is_503_with_retry_after_and_the_others_are_answered(folder: Path) -> None:
    statuses: list[tuple[int, dict[str, str]]] = []
    with running(ServingOptions(max_queue=4)) as server:
        server.process.load(served(stub_folder(folder, behaviour={"delay_us": 30_000})))

        def ask(number: int) -> None:
            status, headers, body = server.request("POST", "/v2/models/affine/infer", infer_json(sample_rows(number)))
            if status == 200:
                assert close_to(json.loads(body)["outputs"][0]["data"], expected(sample_rows(number)))
            statuses.append((status, headers))

        clients = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    refused = [headers for status, headers in statuses if status == 503]
    assert refused
    assert all(headers["retry-after"] == "1" for headers in refused)
    assert sorted({status for status, _ in statuses}) == [200, 503]
    assert len(statuses) == 20


def test_a_request_that_waits_too_long_is_503(folder: Path) -> None:
    with running(ServingOptions(request_timeout_s=0.05)) as server:
        server.process.load(served(stub_folder(folder, behaviour={"hang_at": "run", "after_runs": WARM_UP_RUNS})))
        status, answer = server.infer(sample_rows(1))
        assert status == 503
        assert "0.05 s" in answer["error"]


def test_a_client_that_leaves_takes_its_waiting_request_with_it(folder: Path) -> None:
    with running() as server:
        server.process.load(served(stub_folder(folder, behaviour={"delay_us": 100_000})))
        with contextlib.ExitStack() as stack:
            for number in range(30):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                connection.sendall(http_post(infer_json(sample_rows(number))))
            wait_for(lambda: server.process.snapshot().models[0].queued > 10)
        assert server.infer(sample_rows(1))[0] == 200
        assert server.process.snapshot().models[0].requests < 20, "most of the thirty were not run"


def test_memory_for_bodies_is_bounded_and_given_back(folder: Path) -> None:
    with running(ServingOptions(max_body_bytes=4_000_000)) as server, contextlib.ExitStack() as stack:
        server.process.load(served(stub_folder(folder)))
        head = http_post(bytes(3_500_000), headers="Inference-Header-Content-Length: 100\r\n")
        answers = []
        for _ in range(4):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            connection.sendall(head[:100_000])
            answers.append(connection)
        answers[-1].settimeout(60)
        assert answers[-1].recv(100).startswith(b"HTTP/1.1 503")
        stack.close()
        wait_for(lambda: server.process.snapshot().connections == 0)
        assert server.infer(sample_rows(1))[0] == 200


def test_a_bearer_token_is_asked_for_everything_but_health(folder: Path) -> None:
    (folder / "token").write_text("s3cret\n")
    with running(ServingOptions(token_file=str(folder / "token"))) as server:
        server.process.load(served(stub_folder(folder)))
        assert server.request("GET", "/v2/health/ready")[0] == 200
        for path in ("/v2", "/metrics", "/v2/models/affine"):
            status, headers, _ = server.request("GET", path)
            assert status == 401
            assert headers["www-authenticate"].startswith("Bearer")
            assert server.request("GET", path, Authorization="Bearer wrong")[0] == 401
            assert server.request("GET", path, Authorization="Basic s3cret")[0] == 401
            assert server.request("GET", path, Authorization="Bearer s3cret")[0] == 200
        assert server.raw(http_post(bytes(1_000_000))).startswith(b"HTTP/1.1 401")


def test_tls_serves_large_and_small_requests(folder: Path) -> None:
    key, cert = folder / "key.pem", folder / "cert.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("openssl is not here")
    with running(ServingOptions(tls_cert=str(cert), tls_key=str(key))) as server:
        server.process.load(served(stub_folder(folder)))
        url = f"https://127.0.0.1:{server.port}/v2/models/affine/infer"
        with requests.Session() as session:
            for rows in (1, 20_000):
                answer = session.post(url, data=infer_json(sample_rows(1, rows)), timeout=60, verify=str(cert))
                assert close_to(answer.json()["outputs"][0]["data"][:4], expected(sample_rows(1)))
        assert b"HTTP/1.1" not in server.raw(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"token_file": "/nonexistent/token"}, "/nonexistent/token"),
        ({"tls_cert": "/nonexistent/c", "tls_key": "/x"}, "/c"),
    ],
)
def test_a_missing_token_or_certificate_is_named_at_start(options: dict[str, str], named: str) -> None:
    process = ServerProcess(ServingOptions(**options))  # type: ignore[arg-type]
    with pytest.raises(ServingError) as caught:
        process.start(Bind(port=0))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_port_in_use_is_named(affine: Running) -> None:
    with pytest.raises(PortInUse) as caught:
        ServerProcess().start(Bind(port=affine.port))
    assert str(affine.port) in str(caught.value)


def test_a_socket_file_in_use_is_kept_and_one_left_behind_is_replaced(folder: Path) -> None:
    path = folder / "s.sock"
    with running(uds=path):
        with pytest.raises(PortInUse):
            ServerProcess().start(Bind(port=0, uds=path))
        assert path.exists()
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    with running(uds=path) as server:
        assert server.port
    (folder / "file").write_text("mine")
    with pytest.raises(ServingError):
        ServerProcess().start(Bind(host=None, uds=folder / "file"))
    assert (folder / "file").read_text() == "mine"


def test_before_a_model_is_loaded_the_server_is_live_but_not_ready() -> None:
    with running() as server:
        assert server.request("GET", "/v2/health/live")[0] == 200
        assert server.request("GET", "/v2/health/ready")[0] == 503
        assert server.infer(sample_rows(1))[0] == 404


def test_a_slow_reader_of_large_answers_does_not_hold_up_others(affine: Running) -> None:
    body = infer_json(sample_rows(1, 20_000))
    with socket.create_connection(("127.0.0.1", affine.port), timeout=60) as slow:
        slow.sendall(http_post(body) * 3)
        for number in range(5):
            assert affine.infer(sample_rows(number))[0] == 200
        assert read_all(slow).count(b"HTTP/1.1 200 OK") == 3
