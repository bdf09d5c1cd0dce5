"""The daemon as a process: what it holds, what it serves, how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.disk import RealDisk
from agent.fleet_link.identity import Identity, save_identity
from edge_contracts.enrolment import MqttEndpoint
from tests.agent.cli.mindie import document, mindie, refused, running
from tests.agent.serving.running import wait_for
from tests.simulators import bundle_factory
from tests.simulators.quick_folder import quick_folder

pytestmark = pytest.mark.system
IDLE_RSS_MB = 60
QUICK = {"MINDEDGE_AGENT_RACE_BUDGET_S": "2", "MINDEDGE_AGENT_DRAIN_S": "1"}


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """On a slow disk most of the time would go into syncing."""
    with quick_folder() as folder:
        yield folder


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=60) as answer:
        return json.loads(answer.read() or b"{}")


def infer(port: int) -> list[float]:
    request = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 8], "data": [0.5] * 8}]}
    answer: list[float] = ask(port, "/v2/models/affine/infer", request)["outputs"][0]["data"]
    return answer


def family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_an_idle_daemon_is_small_and_quiet(tmp_path: Path) -> None:
    with running(tmp_path / "data", environ=QUICK) as daemon:
        assert daemon.port
        process = psutil.Process(daemon.process.pid)
        assert process.memory_info().rss < IDLE_RSS_MB * 2**20
        loaded = Path(f"/proc/{process.pid}/maps").read_text()
        assert "numpy" not in loaded
        before = sum(process.cpu_times()[:2])
        threading.Event().wait(3)
        assert sum(process.cpu_times()[:2]) - before < 0.03


def test_an_update_through_the_daemon_serves_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    good = bundle_factory.stub_bundle(tmp_path / "good.mindie")
    bad = bundle_factory.stub_bundle(tmp_path / "bad.mindie", version="2.0.0", damaged=True)
    data = tmp_path / "data"
    with running(data, environ=QUICK) as daemon:
        port = daemon.port
        installed = document(mindie("install", good, "--data", data, "--allow-unsigned", "--json"))
        assert installed["daemon"]
        first = infer(port)
        told = json.loads(mindie("doctor", "--data", data, "--json").stdout)
        assert told["daemon"]
        answers: list[list[float]] = []
        errors: list[Exception] = []
        stop = threading.Event()

        def client() -> None:
            while not stop.is_set():
                try:
                    answers.append(infer(port))
                except OSError as error:
                    errors.append(error)

        thread = threading.Thread(target=client)
        thread.start()
        refused(mindie("install", bad, "--data", data, "--allow-unsigned"), "golden")
        stop.set()
        thread.join()
        assert errors == []
        assert answers
        assert all(answer == first for answer in answers)
        assert document(mindie("status", "--data", data, "--json"))["active"]["version"] == "1.0.0"
        assert daemon.end() == 0
    with running(data, environ=QUICK) as again:
        port = again.port
        wait_for(lambda: ask_ready(port))
        assert infer(port) == first


def ask_ready(port: int) -> bool:
    try:
        ask(port, "/v2/models/affine/ready")
    except OSError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_leaves_no_process_no_lock_and_no_socket(tmp_path: Path, number: signal.Signals) -> None:
    data = tmp_path / "data"
    bundle = bundle_factory.stub_bundle(tmp_path / "a.mindie")
    with running(data, environ=QUICK) as daemon:
        port = daemon.port
        document(mindie("install", bundle, "--data", data, "--allow-unsigned", "--json"))
        children = family(daemon.process.pid)
        assert children
        assert daemon.end(number) == 0
        _, alive = psutil.wait_procs(children, timeout=60)
        assert alive == []
    assert not (data / "control.sock").exists()
    with socket.create_server(("127.0.0.1", port)):
        pass
    document(mindie("rollback", "--data", data, "--json"))


def test_a_killed_daemon_leaves_no_process_and_the_next_one_starts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, environ=QUICK) as daemon:
        assert daemon.port
        children = family(daemon.process.pid)
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
        _, alive = psutil.wait_procs(children, timeout=60)
        assert alive == []
    with running(data, environ=QUICK) as daemon:
        assert daemon.port
        assert document(mindie("status", "--data", data, "--json"))["daemon"]


def test_a_second_daemon_on_the_same_folder_and_a_taken_port_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, environ=QUICK) as daemon:
        port = daemon.port
        refused(mindie("run", "--data", data, "--port", "0"), "in use by another mindie process")
        refused(mindie("run", "--data", tmp_path / "other", "--port", str(port)), str(port), "--port")


def test_clients_of_a_daemon_with_a_token_file_must_show_the_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    refused(mindie("run", "--data", tmp_path / "a", "--port", "0", "--token-file", token), "token", "No such file")
    token.write_text("secret\n")
    with running(tmp_path / "data", "--token-file", str(token), environ=QUICK) as daemon:
        assert ask(daemon.port, "/v2/health/live") == {}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(daemon.port, "/v2")
        request = urllib.request.Request(
            f"http://127.0.0.1:{daemon.port}/v2", headers={"Authorization": "Bearer secret"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200


def test_systemd_is_told_when_it_is_ready(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        address = "\0mindedge-test-" + os.urandom(6).hex()
        channel.bind(address)
        channel.settimeout(60)
        with running(tmp_path / "data", environ={**QUICK, "NOTIFY_SOCKET": "@" + address[1:]}) as daemon:
            assert channel.recv(100) == b"READY=1"
            assert daemon.end() == 0
            assert channel.recv(100) == b"STOPPING=1"


def test_the_cpus_are_inherited_by_every_child(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    with running(tmp_path / "data", "--cpus", str(cpu), environ=QUICK) as daemon:
        assert daemon.port
        for process in [psutil.Process(daemon.process.pid), *family(daemon.process.pid)]:
            assert process.cpu_affinity() == [cpu]


def test_an_enrolled_device_without_its_fleet_says_so_in_status_and_doctor(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert document(mindie("status", "--data", data, "--json"))["fleet"] == {
        "enrolled": False, "connected": False, "detail": None
    }  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    who = Identity(device="cam-1", site="lyon", password="x", server="http://127.0.0.1:1",
                   mqtt=MqttEndpoint(port=closed))  # fmt: skip
    save_identity(data, who, RealDisk())
    assert "fleet: NOT connected: no daemon runs" in mindie("status", "--data", data).stdout
    with running(data, environ=QUICK) as daemon:
        daemon.wait_for("cannot reach the broker")
        fleet = document(mindie("status", "--data", data, "--json"))["fleet"]
        assert (fleet["enrolled"], fleet["connected"]) == (True, False)
        assert f"cannot reach the broker at 127.0.0.1:{closed}" in fleet["detail"]
        told = json.loads(mindie("doctor", "--data", data, "--json").stdout)
        assert "fleet-not-connected" in [finding["code"] for finding in told["findings"]]
