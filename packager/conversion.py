"""Run one converter where it belongs, and read what it made."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from packager.child_process import run_to_end
from packager.converters.child import JOB_FILE, PROGRESS_MARK, RESULT_FILE, ChildResult
from packager.converters.converter import ConversionJob, Converted, Converter
from packager.errors import ConverterError
from packager.isolated_run import child_environment, ending

CONVERSION_TIMEOUT_S = 3600.0
LOG_MARK = re.compile(r"(DEBUG|INFO|WARNING|ERROR)\b:?|[IWEF]\d{4} ")
"""How a log line of pip, TensorFlow Lite or absl begins."""


def convert(made: Converter, job: ConversionJob, folder: Path, progress: Callable[[str], None]) -> Converted:
    """``folder`` is this conversion's own. Raises ConverterError, ToolchainError; result files are checked to exist."""
    result = made.convert(job, progress) if made.spawns_own_process else _in_child(job, folder, progress)
    out = Path(job.out)
    if not (out / result.entry).is_file():
        raise ConverterError(made.name, f"gave no file {result.entry}")
    return result


def _in_child(job: ConversionJob, folder: Path, progress: Callable[[str], None]) -> Converted:
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    (scratch / JOB_FILE).write_bytes(msgspec.json.encode(msgspec.structs.replace(job, environ={})))

    def heartbeat(line: str) -> None:
        progress(line.removeprefix(PROGRESS_MARK) if line.startswith(PROGRESS_MARK) else "")

    finished = run_to_end(
        [sys.executable, "-m", "packager.converters.child", scratch / JOB_FILE],
        environ=child_environment(job.environ, scratch), working_folder=scratch, log=scratch / "log",
        timeout_s=CONVERSION_TIMEOUT_S, heartbeat=heartbeat,
    )  # fmt: skip
    result_file = scratch / RESULT_FILE
    if not result_file.exists():
        raise ConverterError(job.converter, ending(finished, CONVERSION_TIMEOUT_S), finished.last_lines)
    result = msgspec.json.decode(result_file.read_bytes(), type=ChildResult)
    if result.converted is None:
        reason = result.reason.removeprefix(f"{job.converter}: ")
        raise ConverterError(job.converter, reason, finished.last_lines)
    return result.converted


def _is_plain(text: str) -> bool:
    """A line for people, no progress bar or warning of a tool."""
    return len(text) < 120 and "%|" not in text and "it/s" not in text and not LOG_MARK.match(text)


class Heartbeats:
    """Turns signs of life into lines: a new text at once, the same one every ``every`` beats. Safe from any thread."""

    def __init__(
        self, say: Callable[[str], None], title: str, every: int = 4, canceled: threading.Event | None = None
    ) -> None:
        self._canceled = canceled
        self._say = say
        self._title = title
        self._every = every
        self._beats = 0
        self._last = ""
        self._lock = threading.Lock()

    def __call__(self, text: str) -> None:
        """Raises ConverterError once the build is canceled: whoever waits for a process then stops it."""
        if self._canceled is not None and self._canceled.is_set():
            raise ConverterError(self._title, "the build was interrupted")
        with self._lock:
            self._beats += 1
            if text and text != self._last and _is_plain(text):
                self._last = text
                self._say(f"{self._title}: {text}")
            elif self._beats % self._every == 0:
                self._say(f"{self._title}: {self._last or 'at work'}, {self._beats} s")
