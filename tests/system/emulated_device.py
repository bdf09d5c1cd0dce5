"""A device in the root of deploy/emulate-arm64, driven from outside as a person would."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "emulate-arm64"
ENVIRON = {"PYTHON": sys.executable, "ARM64_ROOT": os.environ.get("ARM64_ROOT", "")}
BUILD_TIMEOUT_S = 1800.0
COMMAND_TIMEOUT_S = 600.0
READY_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 90.0


def root_folder() -> Path:
    """As the script chooses it."""
    return Path(ENVIRON["ARM64_ROOT"] or "~/.cache/mindedge/arm64-root").expanduser()


def emulate(*words: str | Path, timeout_s: float = COMMAND_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """The script, run to its end."""
    return subprocess.run(
        [str(SCRIPT), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **ENVIRON},
    )


@dataclass(frozen=True)
class Device:
    """``environment``: one of the script's. ``folder``: the device's own, as seen from here; ``inside``: from there."""

    environment: str
    folder: Path
    inside: str

    @property
    def options(self) -> list[str]:
        return ["--env", self.environment]

    def put(self, file: Path) -> str:
        """Copy a file onto the device; its path there."""
        shutil.copy(file, self.folder / file.name)
        return f"{self.inside}/{file.name}"

    def mindie(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """One command of the agent's, with this device's data folder."""
        return emulate(*self.options, "run", "--", "mindie", *words, "--data", f"{self.inside}/data")

    def document(self, *words: str | Path) -> Any:
        """The JSON document that a command prints."""
        done = self.mindie(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def daemon(self, *words: str) -> Iterator[Daemon]:
        """`mindie run` until the block ends; what it started ends with it."""
        command = ["mindie", "run", "--data", f"{self.inside}/data", "--port", "0", *words]
        process = subprocess.Popen(
            [str(SCRIPT), *self.options, "run", "--", *command],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, **ENVIRON},
        )  # fmt: skip
        daemon = Daemon(process)
        try:
            yield daemon
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


class Daemon:
    """A running `mindie run` and what it logs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def port(self) -> int:
        """Where it serves, once it does."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        pause = threading.Event()
        while True:
            for line in list(self.lines):
                found = re.search(r"serving on http://127\.0\.0\.1:(\d+)", line)
                if found:
                    return int(found[1])
            assert self.process.poll() is None, "\n".join(self.lines)
            assert time.monotonic() < deadline, "\n".join(self.lines)
            pause.wait(0.1)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Over loopback, from outside of the root."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def stop(self) -> int:
        """As systemd would; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())


@contextlib.contextmanager
def device(environment: str) -> Iterator[Device]:
    """An empty one, gone after the block."""
    folder = Path(tempfile.mkdtemp(prefix="device-", dir=root_folder() / "tmp"))
    try:
        yield Device(environment, folder, f"/tmp/{folder.name}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
