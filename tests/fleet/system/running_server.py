"""A real `mindfleet serve` as a child process, driven by the real commands."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fleet.client import FleetClient

DEADLINE_S = 30.0


class RunningServer:
    """``stderr`` gathers in a file, so that the pipe never fills."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.options = options
        self.log = data.with_suffix(".log")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            command = [
                sys.executable,
                "-m",
                "fleet",
                "serve",
                "--data",
                str(self.data),
                "--port",
                "0",
                "--mqtt-port",
                "0",
            ]
            self.process = subprocess.Popen([*command, *self.options], stderr=log, stdout=log, env=environment())
        wait_until(lambda: "ready on" in self.text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(with_signal)
        return self.process.wait(DEADLINE_S)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.data / "server.json").read_text())
        return facts

    @property
    def client(self) -> FleetClient:
        return FleetClient(self.facts["url"], (self.data / "operator.token").read_text().strip())

    def run(self, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A mindfleet command against this server."""
        done = mindfleet(*command, "--data", str(self.data))
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    def json(self, *command: str) -> Any:
        return json.loads(self.run(*command, "--json").stdout)


@contextlib.contextmanager
def server(data: Path, *options: str) -> Iterator[RunningServer]:
    running = RunningServer(data, *options)
    running.start()
    try:
        yield running
    finally:
        if running.process is not None and running.process.poll() is None:
            running.stop()


def mindfleet(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleet", *command], capture_output=True, text=True, env=environment(), timeout=60
    )


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MINDEDGE_")}


def wait_until(condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    until_s = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value or time.monotonic() > until_s:
            assert value, "not within the deadline"
            return value
        time.sleep(0.05)
