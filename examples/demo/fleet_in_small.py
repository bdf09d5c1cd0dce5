"""A server and its devices on this machine, each a process of its own with its own data folder and credentials."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.demo.commands import CommandFailed, Service, free_port, left_in_session, run, run_json
from examples.demo.narration import Narrator


class FleetInSmall:
    """``devices`` maps a device's name to its serving port."""

    def __init__(self, work: Path, narrator: Narrator) -> None:
        self.work = work
        self.narrator = narrator
        self.devices: dict[str, int] = {}
        self.port = free_port()
        self.mqtt_port = free_port()
        self._services: dict[str, Service] = {}

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def server_data(self) -> Path:
        """DATA of the server."""
        return self.work / "fleet"

    def start_server(self, broker: str = "embedded") -> None:
        """Start ``mindfleet serve`` and wait until it answers."""
        command = ["mindfleet", "serve", "--data", str(self.server_data), "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--mqtt-port", str(self.mqtt_port), "--broker", broker]
        self._services["server"] = Service("mindfleet serve", command, self.work / "server.log")
        self.until("waiting for the server to answer", lambda: self._server_ready() or None, 30)

    def enroll(self, names: list[str]) -> None:
        """One token for all of ``names``, used up by each device's own ``mindie enroll``."""
        token = self.work / "enrolment.token"
        self.mindfleet("token", "create", "--uses", str(len(names)), "--out", str(token))
        for name in names:
            data = self.work / name
            command = ["mindie", "enroll", "--data", str(data), "--server", self.url, "--token-file", str(token)]
            with self.narrator.waiting(f"{name} is enrolling"):
                run([*command, "--name", name], self.narrator, quiet=True)

    def start_device(self, name: str, cpus: str | None, options: list[str]) -> None:
        """Start ``mindie run``; ``cpus`` pins it ("0" or "0-1")."""
        port = free_port()
        command = ["mindie", "run", "--data", str(self.work / name), "--host", "127.0.0.1", "--port", str(port)]
        command += ["--cpus", cpus] if cpus else []
        self._services[name] = Service(f"mindie run ({name})", [*command, *options], self.work / f"{name}.log")
        self.devices[name] = port

    def mindfleet(self, *words: str, quiet: bool = True) -> str:
        """Run an operator's command against this server."""
        return run(
            ["mindfleet", *words, "--data", str(self.server_data), "--server", self.url], self.narrator, quiet=quiet
        )

    def mindfleet_json(self, *words: str) -> Any:
        """The same with ``--json``."""
        return run_json(["mindfleet", *words, "--data", str(self.server_data), "--server", self.url], self.narrator)

    def device_views(self) -> dict[str, Any]:
        """DeviceView by device name."""
        return {item["id"]: item for item in self.mindfleet_json("device", "list")}

    def until(self, what: str | Callable[[], str], seen: Callable[[], Any], timeout_s: float) -> Any:
        """Poll until ``seen()`` is not None. Raises CommandFailed when a service ends or time is up."""
        deadline = time.monotonic() + timeout_s
        with self.narrator.waiting(what):
            while True:
                for service in self._services.values():
                    service.check_alive()
                result = seen()
                if result is not None:
                    return result
                if time.monotonic() > deadline:
                    raise CommandFailed(f"not done in {timeout_s:.0f} s: {what() if callable(what) else what}")
                time.sleep(0.3)

    def stop(self) -> list[int]:
        """Stop everything, devices first; returns the ids of processes that are still there (none is right)."""
        order = [name for name in self._services if name != "server"] + ["server"]
        sessions = [self._services[name].pid for name in order if name in self._services]
        for name in order:
            if name in self._services:
                self._services.pop(name).stop()
        return [pid for session in sessions for pid in left_in_session(session)]

    def _server_ready(self) -> bool:
        import urllib.error
        import urllib.request

        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
