"""Run a foreign program to its end: with a time limit, signs of life, and nothing left behind.

The program gets a session of its own, so that stopping it stops what it started. Its output goes to a file, not a
pipe: a grandchild that keeps a pipe open cannot hold us up.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LAST_LINES = 20
MAX_TAIL_BYTES = 64 * 1024
POLL_S = 1.0
TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Finished(NamedTuple):
    """`returncode` is None when the time ran out; `last_lines` are the end of stdout and stderr together."""

    returncode: int | None
    last_lines: tuple[str, ...]


def run_to_end(
    command: Sequence[str | Path],
    *,
    environ: Mapping[str, str],
    working_folder: Path,
    log: Path,
    timeout_s: float,
    heartbeat: Callable[[str], None],
) -> Finished:
    """Run `command`; call `heartbeat(last line so far)` about once a second. Raises OSError if it cannot start."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=working_folder,
            env=dict(environ),
            start_new_session=True,
        )
    try:
        returncode = _wait(child, log, timeout_s, heartbeat)
    finally:
        _stop_all(child)
    return Finished(returncode, last_lines(log))


def last_lines(log: Path) -> tuple[str, ...]:
    """The last lines of a log that say something, without colours; a progress bar's redraws count as one line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - MAX_TAIL_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    text = TERMINAL_CODE.sub("", text)
    redrawn = (line.rstrip("\r").rpartition("\r")[2].strip() for line in text.split("\n"))
    return tuple([line for line in redrawn if line][-LAST_LINES:])


def _wait(child: subprocess.Popen[bytes], log: Path, timeout_s: float, heartbeat: Callable[[str], None]) -> int | None:
    left_s = timeout_s
    while left_s > 0:
        try:
            return child.wait(min(POLL_S, left_s))
        except subprocess.TimeoutExpired:
            left_s -= POLL_S
            said = last_lines(log)
            heartbeat(said[-1] if said else "")
    return None


def _stop_all(child: subprocess.Popen[bytes]) -> None:
    """End the whole session, the leader's orphans included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
