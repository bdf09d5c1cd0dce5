"""The whole server as a process: enrolment, push, rollout, a bad update, a dead broker, a kill."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_contracts.deployment import DeploymentState
from tests.fleet.system.running_server import RunningServer, mindfleet, server, wait_until
from tests.simulators.bundle_factory import stub_bundle
from tests.simulators.device import Plan
from tests.simulators.mqtt_device import MqttDevice

NATS = Path(sysconfig.get_path("scripts")) / "nats-server"
BROKERS = [
    pytest.param("embedded", marks=[pytest.mark.nats, pytest.mark.skipif(not NATS.exists(), reason="no nats-server")]),
    pytest.param(
        "mosquitto",
        marks=[
            pytest.mark.mosquitto,
            pytest.mark.skipif(not shutil.which("mosquitto", path="/usr/sbin:/usr/bin"), reason="no mosquitto"),
        ],
    ),
]
pytestmark = pytest.mark.system
DONE = DeploymentState.COMMITTED


@pytest.fixture(params=BROKERS)
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    with server(tmp_path / "data", "--broker", request.param) as started:
        yield started


@pytest.fixture
def devices(running: RunningServer, tmp_path: Path) -> Iterator[list[MqttDevice]]:
    token_file = tmp_path / "token.txt"
    running.run("token", "create", "--uses", "2", "--out", str(token_file))
    made = [MqttDevice(token_file.read_text(), name) for name in ("one", "two")]
    for device in made:
        device.connect()
    wait_until(lambda: [device.online for device in running.client.devices()] == [True, True])
    yield made
    for device in made:
        device.close()


def push(running: RunningServer, folder: Path, version: str) -> None:
    path = stub_bundle(folder / f"digits-{version}.mindie", name="digits", version=version)
    running.run("bundle", "push", str(path), "--allow-unsigned")


def roll_out(running: RunningServer, version: str) -> str:
    created = running.json(
        "rollout", "create", "--bundle", "digits", "--version", version, "--wave", "1", "--wave", "100%",
        "--max-in-flight", "1", "--allow-unsigned", "--start",
    )  # fmt: skip
    return str(created["id"])


def test_a_good_bundle_reaches_every_device_and_a_bad_one_stops_at_the_first(
    running: RunningServer, devices: list[MqttDevice], tmp_path: Path
) -> None:
    push(running, tmp_path, "1.0.0")
    push(running, tmp_path, "2.0.0")
    rollout = roll_out(running, "1.0.0")
    view = running.json("rollout", "status", "--watch", rollout)
    assert view["state"] == "succeeded", view
    assert [wave["counts"]["succeeded"] for wave in view["waves"]] == [1, 1]
    assert all(device.downloaded_bytes > 0 for device in devices)
    rows = {row["id"]: row for row in running.json("device", "list")}
    assert [rows[name]["models"][0]["version"] for name in ("one", "two")] == ["1.0.0", "1.0.0"]
    assert rows["one"]["models"][0]["backend"]["threads"] == 1

    for device in devices:
        device.plans["2.0.0"] = Plan.FAIL
    view = running.json("rollout", "status", "--watch", roll_out(running, "2.0.0"))
    assert view["state"] == "paused"
    assert "1 of 1 targeted devices failed" in view["why"]
    assert {row["device"]: row["state"] for row in view["devices"]} == {"one": "failed", "two": "waiting"}
    assert "golden" in next(row["reason"] for row in view["devices"] if row["device"] == "one")
    rows = {row["id"]: row for row in running.json("device", "list")}
    assert rows["one"]["models"][0]["version"] == "1.0.0"
    assert rows["one"]["models"][0]["state"] == "failed"


def test_a_server_killed_in_a_rollout_goes_on_where_it_was(
    running: RunningServer, devices: list[MqttDevice], tmp_path: Path
) -> None:
    push(running, tmp_path, "1.0.0")
    devices[0].plans["1.0.0"] = Plan.STOP_IN_TRIAL
    rollout = roll_out(running, "1.0.0")
    wait_until(lambda: running.client.rollout(rollout).devices[0].state == "trial")
    mqtt_port, http_port = running.facts["mqtt_port"], running.facts["url"].rpartition(":")[2]
    assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: _is_free(mqtt_port))
    devices[0].finish("digits", DONE)
    ports = ("--mqtt-port", str(mqtt_port), "--port", http_port)
    with server(running.data, *ports, *running.options) as again:
        view = again.json("rollout", "status", "--watch", rollout)
        assert view["state"] == "succeeded", (view["why"], view["devices"], again.text())


def test_a_broker_that_dies_is_said_once_and_nothing_is_lost(
    running: RunningServer, devices: list[MqttDevice], tmp_path: Path
) -> None:
    push(running, tmp_path, "1.0.0")
    children = _children(running.process.pid)
    assert len(children) == 1
    os.kill(children[0], signal.SIGKILL)
    rollout = roll_out(running, "1.0.0")
    view = running.json("rollout", "status", "--watch", rollout)
    assert view["state"] == "succeeded", view
    assert running.client.bundles()[0].version == "1.0.0"
    wait_until(lambda: "recovered" in running.text())
    text = running.text()
    assert text.count("recovered") == 1
    assert text.count("is started again") == 1
    assert text.count("no connection to the broker") <= 1
    assert "Traceback" not in text


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_and_its_broker_and_leaves_no_lock(
    tmp_path: Path, with_signal: signal.Signals
) -> None:
    with server(tmp_path / "data") as running:
        facts, children = running.facts, _children(running.process.pid)
        assert running.stop(with_signal) == 0
        assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
        assert _is_free(facts["mqtt_port"])
        assert not (running.data / "server.json").exists()
    with server(tmp_path / "data") as again:
        assert "ready" in again.text()


def test_a_second_server_on_one_data_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with server(tmp_path / "data"):
        done = mindfleet("serve", "--data", str(tmp_path / "data"), "--port", "0", "--mqtt-port", "0")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "in use by another mindfleet serve" in done.stderr


@pytest.mark.parametrize("option", ["--port", "--mqtt-port"])
def test_a_port_in_use_is_refused_in_one_line(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = {"--port": "--mqtt-port", "--mqtt-port": "--port"}[option]
        done = mindfleet(
            "serve", "--data", str(tmp_path / "data"), option, str(taken.getsockname()[1]), other, "0"
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "in use" in done.stderr
    assert option in done.stderr


def _children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
