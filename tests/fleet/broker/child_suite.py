"""What every broker that runs as a child process must do besides: live and die as told, and keep its secrets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fleet.broker.client import ServerClient
from fleet.errors import BrokerPortInUse, BrokerStartFailed
from tests.fleet.broker.mqtt_rig import MqttRig, gone
from tests.suites.broker_suite import BrokerSuite, account, eventually

ROOT = Path(__file__).parents[3]
PARENT = """
import importlib, json, pathlib, sys, time
from fleet.broker.broker import BrokerAddress
module, function = sys.argv[1].split(":")
broker = getattr(importlib.import_module(module), function)(pathlib.Path(sys.argv[2]), BrokerAddress("127.0.0.1", 0))
broker.start()
print(json.dumps({"pid": broker.child_pid, "port": broker.address.port}), flush=True)
time.sleep(300)
"""


def listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def is_free(port: int) -> bool:
    try:
        listen(port).close()
    except OSError:
        return False
    return True


class ChildSuite(BrokerSuite):
    factory: str

    def test_a_port_in_use_is_named_and_nothing_is_left_running(self, rig: MqttRig) -> None:
        with listen(0) as occupied:
            port = occupied.getsockname()[1]
            rig.broker._address = rig.broker._address.__class__("127.0.0.1", port)
            with pytest.raises(BrokerPortInUse, match=f"port {port} on 127.0.0.1 is in use") as caught:
                rig.broker.start()
        assert caught.value.port == port
        assert not rig.broker.alive()

    def test_a_port_lost_at_the_last_moment_is_named_too(self, rig: MqttRig, monkeypatch: pytest.MonkeyPatch) -> None:
        with listen(0) as occupied:
            port = occupied.getsockname()[1]
            monkeypatch.setattr("fleet.broker.child_broker.free_port", lambda *_args, **_keywords: port)
            with pytest.raises(BrokerPortInUse, match=str(port)):
                rig.broker.start()
        assert not rig.broker.alive()

    def test_a_host_that_is_not_ours_is_named(self, rig: MqttRig) -> None:
        rig.broker._address = rig.broker._address.__class__("192.0.2.1", 0)
        with pytest.raises(BrokerStartFailed, match=r"192\.0\.2\.1"):
            rig.broker.start()

    def test_after_stop_the_port_is_free_and_the_child_gone(self, started: MqttRig) -> None:
        pid, port = started.broker.child_pid, started.broker.address.port
        started.device("cam-1", "pw-cam-1")
        started.broker.stop()
        assert pid is not None
        assert gone(pid)
        listen(port).close()

    def test_a_server_killed_without_warning_takes_its_broker_along(self, rig: MqttRig, tmp_path: Path) -> None:
        command = [sys.executable, "-c", PARENT, self.factory, str(tmp_path / "other")]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
            try:
                assert parent.stdout is not None
                facts = json.loads(parent.stdout.readline())
                assert not gone(facts["pid"])
            finally:
                parent.send_signal(signal.SIGKILL)
        eventually(lambda: gone(facts["pid"]) and is_free(facts["port"]))

    def test_a_broker_started_by_a_thread_outlives_that_thread(self, rig: MqttRig) -> None:
        rig.broker.set_accounts([account("cam-1")])
        thread = threading.Thread(target=rig.broker.start)
        thread.start()
        thread.join()
        pid = rig.broker.child_pid
        assert rig.device("cam-1", "pw-cam-1").connected
        assert rig.broker.child_pid == pid

    def test_no_password_is_written_down_or_on_a_command_line_and_the_files_are_private(self, started: MqttRig) -> None:
        password, pid = started.broker.server_credentials.password, started.broker.child_pid
        assert pid is not None
        assert password not in Path(f"/proc/{pid}/cmdline").read_text()
        folder = started.broker._folder
        texts = [path for path in folder.iterdir() if path.is_file()]
        assert texts
        for path in texts:
            assert password.encode() not in path.read_bytes()
        written = [path for path in texts if path.suffix != ".db"]
        assert {path.name: path.stat().st_mode & 0o777 for path in written} == {path.name: 0o600 for path in written}
        assert folder.stat().st_mode & 0o777 == 0o700

    def test_a_thousand_accounts_load_and_the_last_one_works(self, started: MqttRig) -> None:
        staying = started.device("cam-1", "pw-cam-1")
        same = account("cam-1").verifiers
        many = [account("cam-1"), account("cam-2")]
        many += [many[0].__class__(f"bulk-{number}", "lyon", same) for number in range(1000)]
        started.broker.set_accounts(many)
        assert started.device("bulk-999", "pw-cam-1").connected
        assert staying.interruptions == 0

    def test_the_server_is_told_apart_by_a_client_id_that_outlives_a_restart(self, started: MqttRig) -> None:
        first = started.broker.server_credentials
        started.broker.stop()
        started.broker.start()
        second = started.broker.server_credentials
        assert first.client_id == second.client_id
        assert first.password != second.password

    def test_a_link_with_wrong_credentials_says_so_once_and_can_be_stopped(
        self, started: MqttRig, caplog: pytest.LogCaptureFixture
    ) -> None:
        good = started.broker.server_credentials
        wrong = good.__class__(good.username, "wrong", good.client_id)
        link = ServerClient(started.broker.address, wrong, lambda _: None, chance=lambda: 0.01)
        link.start()
        eventually(lambda: "no connection to the broker" in caplog.text)
        link.stop()
        assert caplog.text.count("no connection to the broker") == 1
        assert not link.connected

    def test_a_broker_that_keeps_dying_is_not_declared_alive(self, started: MqttRig) -> None:
        pid = started.broker.child_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not started.broker.alive())
        eventually(lambda: started.broker.child_pid not in (None, pid))
