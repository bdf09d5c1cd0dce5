"""`mindie doctor` as a command: what it prints, its exit status, and whom it asks."""

from __future__ import annotations

import argparse
import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from agent.cli import doctor as command
from agent.cli.arguments import common_options
from agent.config import AgentConfig
from agent.control import ControlServer
from agent.disk import RealDisk
from agent.doctor import gather
from agent.errors import AgentError
from agent.fleet_link.identity import Identity, save_identity
from edge_contracts.capabilities import Capabilities, CpuFacts, RuntimeFact
from edge_contracts.enrolment import MqttEndpoint
from edge_contracts.tensor_signature import Signature, TensorSpec

WORKS = RuntimeFact(name="onnxruntime", version="1.32.0", status="usable", targets=["cpu"])
really_installed = gather.installed


@pytest.fixture(autouse=True)
def _this_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is known, so that nothing depends on the one that runs the test."""
    facts = Capabilities(runtimes=[WORKS], cpu=CpuFacts(budget_cpus=2.0))
    monkeypatch.setattr(gather, "probed", lambda data_dir: facts)
    monkeypatch.setattr(gather, "installed", lambda: {"onnxruntime": "1.32.0"})
    monkeypatch.setattr(gather, "disk", lambda data_dir: None)


def doctor(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers(), common_options())
    args = parser.parse_args(["doctor", *arguments])
    return int(args.run(args))


@contextmanager
def daemon(data_dir: Path, answers: dict[str, Any]) -> Iterator[None]:
    """A control socket that answers these verbs."""

    def handle(verb: str, arguments: dict[str, Any], progress: object) -> Any:
        if verb not in answers:
            raise AgentError(f"this daemon does not know {verb!r}")
        return answers[verb]

    data_dir.mkdir(parents=True, exist_ok=True)
    server = ControlServer(data_dir, handle)
    server.start()
    try:
        yield
    finally:
        server.stop()


def status(threads: int) -> dict[str, Any]:
    active = {"version": "1", "digest": "sha256:" + "0" * 64, "variant": "v", "options": {"threads": threads}}
    return {"models": [{"name": "digits", "active": active}]}


def test_nothing_wrong_is_exit_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("--data", str(tmp_path / "none")) == 0
    assert capsys.readouterr().out.startswith("nothing is wrong\n")
    assert not (tmp_path / "none").exists(), "looking changes nothing"


def test_a_fault_is_exit_status_1_and_is_told_with_its_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "installed", lambda: {"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.22.0"})
    assert doctor("--data", str(tmp_path)) == 1
    out = capsys.readouterr().out
    assert out.startswith("FAULT onnxruntime-twice: ")
    assert "\n      fix: pip uninstall -y onnxruntime onnxruntime-gpu" in out


def test_json_is_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "installed", lambda: {"tflite-runtime": "2.14.0", "numpy": "2.2.6"})
    assert doctor("--data", str(tmp_path), "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["findings"][0]["code"] == "numpy-2-with-tflite-runtime"
    assert set(document["findings"][0]) == {"code", "severity", "text", "fix"}


def test_a_running_daemon_tells_what_tuning_has_in_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned = {"observation": {"own_cpus": 0.3}, "models": [{"name": "digits", "threads": 1, "queued": 7}]}
    with daemon(tmp_path, {"status": status(threads=2), "facts": tuned}):
        assert doctor("--data", str(tmp_path)) == 0
    assert "HINT low-cpu-use: 7 requests wait for digits, which has 1 threads" in capsys.readouterr().out


def test_a_daemon_that_does_not_know_the_question_is_asked_for_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with daemon(tmp_path, {"status": status(threads=8)}):
        assert doctor("--data", str(tmp_path)) == 1
    assert "digits is served with 8 threads" in capsys.readouterr().out


@contextmanager
def server_that_says(date: str) -> Iterator[str]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(404)
            self.send_header("Date", date)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("offset_s", "code"), [(0, 0), (-7200, 1)])
def test_an_enrolled_device_compares_its_clock_with_the_servers(
    tmp_path: Path, offset_s: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with server_that_says(formatdate(time.time() + offset_s, usegmt=True)) as url:
        identity = Identity(device="d", site="s", password="p", server=url, mqtt=MqttEndpoint(host=None, port=1883))
        save_identity(tmp_path, identity, RealDisk())
        assert doctor("--data", str(tmp_path)) == code
    assert ("wrong-clock" in capsys.readouterr().out) is bool(code)


@pytest.mark.parametrize("server", ["http://127.0.0.1:9", "ftp://x", "http://[", ""])
def test_a_server_that_does_not_answer_says_nothing_of_the_clock(server: str) -> None:
    assert gather.server_time_ms(server) is None


def test_a_date_that_is_none_says_nothing_of_the_clock() -> None:
    with server_that_says("soon") as url:
        assert gather.server_time_ms(url) is None


def test_only_dimensions_after_the_batch_count_as_open() -> None:
    signature = Signature(
        inputs=[TensorSpec(name="image", dtype="FP32", shape=["batch", 3, "height", "width"]),
                TensorSpec(name="scale", dtype="FP32", shape=["batch", 1])],
        outputs=[TensorSpec(name="boxes", dtype="FP32", shape=["batch", "count"])],
    )  # fmt: skip
    assert gather.open_dims(signature) == {"image": ("height", "width")}


def test_the_clock_is_compared_with_the_time_of_the_installation(tmp_path: Path) -> None:
    facts = gather.clock(AgentConfig(data_dir=tmp_path), lambda: 5)
    assert facts.now_ms == 5
    assert facts.built_ms is not None
    assert facts.built_ms >= gather.EARLIEST_MS


def test_the_distributions_of_this_environment_are_found() -> None:
    assert really_installed()["msgspec"] == version("msgspec")
