"""Runs the product's own commands, as a user would type them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

from examples.demo.narration import Narrator

BIN = Path(sys.executable).parent
STOP_TIMEOUT_S = 20.0
_CLOCK = re.compile(r"^\[ *[0-9.]+ s\] ")
"""The command's own clock at the start of a progress line; the narrator has one already."""


class CommandFailed(Exception):
    """A command ended with another status than 0; the text holds its last lines."""


def run(command: list[str], narrator: Narrator, *, quiet: bool = False) -> str:
    """Run a command to its end, return its stdout; unless ``quiet`` pass its progress on. Raises CommandFailed."""
    shown = " ".join(command)
    with contextlib.nullcontext() if quiet else narrator.waiting(f"{command[0]} {command[1]} is at work"):
        process = subprocess.Popen(_resolved(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        tail: deque[str] = deque(maxlen=15)
        reader = threading.Thread(target=_pass_on, args=(process, tail, narrator, quiet), daemon=True)
        reader.start()
        try:
            output = process.stdout.read() if process.stdout else ""
            status = process.wait()
            reader.join()
        finally:
            _end(process)
    if status != 0:
        raise CommandFailed(f"`{shown}` ended with {status}:\n   " + "\n   ".join(tail or [output.strip()]))
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupted: nothing that the command started may outlive us, or write into the folder that is removed next."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_json(command: list[str], narrator: Narrator, *, quiet: bool = True) -> Any:
    """Run a command with ``--json`` and parse the one document it prints."""
    return json.loads(run([*command, "--json"], narrator, quiet=quiet))


class Service:
    """A long-running command; its output goes to a log file."""

    def __init__(self, name: str, command: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                _resolved(command), stdout=file, stderr=file, env={**os.environ, **(environment or {})},
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def check_alive(self) -> None:
        """Raises CommandFailed with the end of the log when the service has ended."""
        status = self._process.poll()
        if status is not None:
            raise CommandFailed(f"{self.name} ended with {status}:\n   " + "\n   ".join(self.tail()))

    def tail(self, lines: int = 15) -> list[str]:
        """The log's last lines."""
        return self.log.read_text(errors="replace").splitlines()[-lines:]

    def stop(self) -> None:
        """SIGTERM, and SIGKILL to its whole session if it does not end in time."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def left_in_session(session: int) -> list[int]:
    """Process ids still alive in a session that Service started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def _resolved(command: list[str]) -> list[str]:
    return [str(BIN / command[0]), *command[1:]]


def _pass_on(process: subprocess.Popen[str], tail: deque[str], narrator: Narrator, quiet: bool) -> None:
    for line in process.stderr or ():
        line = line.rstrip()
        if line:
            tail.append(line)
            if not quiet:
                narrator.say("   " + _CLOCK.sub("", line))
