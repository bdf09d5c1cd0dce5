"""One trial process, seen from the side that started it: timeouts on every step, and how it ended as evidence or not.

Start trials from a thread that outlives them: the kernel ends a trial with the thread that started it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from agent.disk import make_private
from agent.errors import SelectionCanceled, TrialError
from agent.inference.process_end import signal_text
from agent.selection.trial_protocol import Phase, RunReply, TrialRequest, TrialResult

POLL_S = 0.05
MAX_LINE_BYTES = 16 << 20
LOG_TAIL_BYTES = 4096
NOT_EVIDENCE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals by which people and service managers end processes: they say nothing of the candidate."""

T = TypeVar("T", TrialResult, RunReply)


def start_trial(
    request: TrialRequest, request_file: Path, *, is_canceled: Callable[[], bool],
    memory_limit_mb: int | None = None, environ: Mapping[str, str] | None = None, python: str = sys.executable,
) -> TrialProcess:  # fmt: skip
    """Write the request and start the process. Raises TrialError when it cannot be started."""
    log = request_file.with_suffix(".log")
    variables = {"OPENBLAS_NUM_THREADS": "1", **(os.environ if environ is None else environ)}
    try:
        make_private(request_file.parent)
        request_file.write_bytes(msgspec.json.encode(request))
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [python, "-m", "agent.trial", str(request_file)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=variables, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise TrialError(f"the trial cannot be started: {error.strerror}", is_evidence=False) from error
    return TrialProcess(process, Path(request.result_file), log, is_canceled, memory_limit_mb)


class TrialProcess:
    """Not thread-safe. ``kill`` is always allowed and may be repeated."""

    def __init__(
        self, process: subprocess.Popen[bytes], result_file: Path, log: Path, is_canceled: Callable[[], bool],
        memory_limit_mb: int | None = None,
    ) -> None:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._commands, self._replies = process.stdin, process.stdout
        self._result_file = result_file
        self._log = log
        self._is_canceled = is_canceled
        self._memory_limit_mb = memory_limit_mb
        self._buffer = b""
        self._killed_by_us = False
        self._oom_kills = oom_kills()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """As subprocess gives it; None while it runs."""
        return self._process.poll()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def has_answered(self) -> bool:
        """Whether ``wait_ready`` would return or raise at once."""
        return b"\n" in self._buffer or not self.is_alive or self._readable(0.0)

    def exceeds_memory(self) -> bool:
        """Whether it takes more memory than it was given."""
        used_mb = resident_mb(self._process.pid) if self._memory_limit_mb is not None else None
        return used_mb is not None and self._memory_limit_mb is not None and used_mb > self._memory_limit_mb

    def wait_ready(self, timeout_s: float) -> TrialResult:
        """The result of opening, judging and warming up; it may be a FAILED one.

        Raises TrialError when the process died, hung or took too much memory; SelectionCanceled.
        """
        return self._read(TrialResult, timeout_s)

    def run(self, count: int, warm: int, timeout_s: float) -> RunReply:
        """Raises as ``wait_ready`` does, and TrialError when the run failed in the runtime."""
        with contextlib.suppress(OSError, ValueError):  # it died: reading tells how
            self._commands.write(f"run {count} {warm}\n".encode())
            self._commands.flush()
        reply = self._read(RunReply, timeout_s)
        if reply.error is not None:
            raise TrialError(reply.error)
        return reply

    def wait_idle(self, timeout_s: float) -> None:
        """Return when none of its threads is running, or after ``timeout_s``. Never raises."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and has_running_thread(self._process.pid):
            time.sleep(0.0005)

    def close(self, timeout_s: float) -> None:
        """Ask it to end, kill it when it does not. Never raises."""
        with contextlib.suppress(OSError, ValueError):
            self._commands.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """End it now; what it did is no evidence. Never raises."""
        if self.is_alive:
            self._killed_by_us = True
            self._process.kill()
        self._process.wait()
        for pipe in (self._commands, self._replies):
            with contextlib.suppress(OSError):
                pipe.close()

    def _read(self, kind: type[T], timeout_s: float) -> T:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if self._is_canceled():
                self.kill()
                raise SelectionCanceled("canceled")
            if time.monotonic() > deadline:
                phase = self._last_phase()
                self.kill()
                raise TrialError(f"hung: no answer within {timeout_s:g} s while {phase}", kind="hang")
            self._check_memory()
            if self._readable(POLL_S) and not self._fill():
                raise self._death()
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as error:
            self.kill()
            raise TrialError(f"the trial answered with something unreadable: {error}") from error

    def _readable(self, timeout_s: float) -> bool:
        return not self._replies.closed and bool(select.select([self._replies], [], [], timeout_s)[0])

    def _fill(self) -> bool:
        """Read what is there; False at the end of the pipe."""
        data = os.read(self._replies.fileno(), 1 << 16)
        self._buffer += data
        if len(self._buffer) > MAX_LINE_BYTES:
            self.kill()
            raise TrialError("the trial answered without end")
        return bool(data)

    def _check_memory(self) -> None:
        if not self.exceeds_memory():
            return
        used_mb, phase = resident_mb(self._process.pid), self._last_phase()
        self.kill()
        raise TrialError(
            f"took {used_mb} MB of memory while {phase}, {self._memory_limit_mb} MB are free for it", kind="memory"
        )

    def _death(self) -> TrialError:
        returncode = self._process.wait()
        phase = self._last_phase()
        if self._killed_by_us or -returncode in NOT_EVIDENCE:
            return TrialError(f"the trial was ended from outside while {phase}", is_evidence=False)
        if returncode == -signal.SIGKILL and oom_kills() == self._oom_kills:
            return TrialError(f"the trial was killed from outside while {phase}", is_evidence=False)
        if returncode >= 0:
            return TrialError(f"{signal_text(returncode)} while {phase}{self._log_tail()}")
        kind = "memory" if returncode == -signal.SIGKILL else "crash"
        return TrialError(f"{signal_text(returncode)} while {phase}", kind=kind)

    def _last_phase(self) -> str:
        try:
            result = msgspec.json.decode(self._result_file.read_bytes(), type=TrialResult)
        except (OSError, msgspec.MsgspecError):
            return Phase.STARTING.value
        return "running" if result.phase == Phase.READY else result.phase.value

    def _log_tail(self) -> str:
        try:
            lines = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f" ({lines[-1][:200]})" if lines else ""


def resident_mb(pid: int) -> int | None:
    """Resident memory of a process in MiB, None when it cannot be read."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def has_running_thread(pid: int) -> bool:
    """Whether any thread of a process is on a CPU or waits for one; False for a process that is gone."""
    try:
        for task in os.scandir(f"/proc/{pid}/task"):
            stat = Path(task.path, "stat").read_bytes()
            if stat[stat.rindex(b")") + 2 : stat.rindex(b")") + 3] == b"R":
                return True
    except (OSError, ValueError):
        return False
    return False


def oom_kills() -> int:
    """How often the kernel has killed for lack of memory since boot; -1 when it does not tell."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return -1
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), -1)
