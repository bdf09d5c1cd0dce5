"""``mindie`` as a user runs it: a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ENVIRON = {**os.environ, "MINDEDGE_STUB_BACKEND": "1"}
ENVIRON.pop("MINDEDGE_DATA", None)
DEADLINE_S = 100.0


def mindie(
    *words: str | Path, environ: dict[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run to the end."""
    command = [sys.executable, "-m", "agent", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, input=stdin, timeout=DEADLINE_S, check=False,
        env={**ENVIRON, **(environ or {})},
    )  # fmt: skip


def with_runtimes_known(data: Path) -> Path:
    """The data folder as after an earlier start: the runtimes have been asked. Saves each test a second of imports."""
    kept = _runtimes_asked()
    if kept is not None and not (data / "cache" / kept.name).exists():
        (data / "cache").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, data / "cache" / kept.name)
    return data


@functools.cache
def _runtimes_asked() -> Path | None:
    folder = tempfile.TemporaryDirectory(prefix="mindedge-facts-")
    atexit.register(folder.cleanup)
    mindie("probe", "--data", folder.name)
    kept = Path(folder.name) / "cache" / "runtime_facts.json"
    return kept if kept.exists() else None


def document(result: subprocess.CompletedProcess[str]) -> Any:
    """The one JSON document on stdout."""
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def refused(result: subprocess.CompletedProcess[str], *named: str, code: int = 1) -> str:
    """One clear line, no traceback."""
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert all(text in last for text in named), last
    return last


class Running:
    """`mindie run` in the background, with what it logs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    def wait_for(self, text: str) -> str:
        """The first line with ``text``."""
        deadline = time.monotonic() + DEADLINE_S
        pause = threading.Event()
        while True:
            found = next((line for line in list(self.lines) if text in line), None)
            if found is not None:
                return found
            assert self.process.poll() is None, "\n".join(self.lines)
            assert time.monotonic() < deadline, "\n".join(self.lines)
            pause.wait(0.02)

    @property
    def port(self) -> int:
        """Where it serves."""
        return int(self.wait_for("serving on").split("http://127.0.0.1:")[1].split(",")[0])

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit status."""
        self.process.send_signal(number)
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code


@contextlib.contextmanager
def running(data: Path, *words: str, environ: dict[str, str] | None = None) -> Iterator[Running]:
    """A daemon until the block ends."""
    with_runtimes_known(data)
    command = [sys.executable, "-m", "agent", "run", "--data", str(data), "--port", "0", *words]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**ENVIRON, **(environ or {})}
    )
    daemon = Running(process)
    try:
        yield daemon
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
