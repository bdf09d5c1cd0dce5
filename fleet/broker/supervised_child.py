"""A child process that is started again when it dies, and never outlives this process."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from fleet.broker import child as launcher
from fleet.broker.backoff import Backoff

_log = logging.getLogger(__name__)

RESTART = Backoff(first_s=0.2, cap_s=30.0, stable_s=60.0)
_TAIL_LINES = 20


class SupervisedChild:
    """One thread starts the child, reads its output and waits for its end; then it starts the next one.

    The thread that starts a child must live as long as the child does (see ``child.py``), hence one thread for all of
    it. Until confirm() a child that ends is not started again: a wrong configuration is no reason to retry. Output goes
    to the log at DEBUG, and its last lines are kept for error messages.

    ``argv[0]`` is an absolute path. Secrets have no place in ``argv``: every user of the machine can read it.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        backoff: Backoff = RESTART,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._argv = list(argv)
        self._backoff = backoff
        self._monotonic = monotonic
        self._thread = threading.Thread(target=self._supervise, name=f"{name}-supervisor", daemon=True)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._confirmed = False
        self._given_up = threading.Event()
        self._stopping = threading.Event()
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)

    def start(self) -> None:
        self._thread.start()

    def confirm(self) -> None:
        """The child has shown that it works; from now on it is started again whenever it ends."""
        self._confirmed = True

    def stop(self, grace_s: float = 10.0) -> None:
        """SIGTERM, after ``grace_s`` SIGKILL; returns when the child is gone. May be called twice."""
        self._stopping.set()
        self.send(signal.SIGTERM)
        self._thread.join(grace_s)
        if self._thread.is_alive():
            _log.warning("%s did not end within %g s and is killed", self._name, grace_s)
            self.send(signal.SIGKILL)
            self._thread.join()

    @property
    def pid(self) -> int | None:
        """Of the running child; None while there is none."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def given_up(self) -> bool:
        """The child ended before confirm() and is not started again."""
        return self._given_up.is_set()

    def last_lines(self) -> tuple[str, ...]:
        """The end of the child's output, oldest first."""
        return tuple(self._tail)

    def send(self, signal_number: signal.Signals) -> None:
        """Does nothing while there is no child."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(signal_number)

    def _supervise(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            started_s = self._monotonic()
            code = self._run_once()
            if self._stopping.is_set():
                return
            if not self._confirmed:
                self._given_up.set()
                return
            failures = self._backoff.failures_after(failures, self._monotonic() - started_s)
            wait_s = self._backoff.ceiling_s(failures)
            _log.warning("%s ended with code %s and is started again in %.1f s", self._name, code, wait_s)
            self._stopping.wait(wait_s)

    def _run_once(self) -> int | None:
        """The exit code, or None when the child could not be started."""
        try:
            process = self._spawn()
        except OSError as error:
            self._tail.append(str(error))
            return None
        if process is None:
            return None
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self._tail.append(line.rstrip())
                _log.debug("%s: %s", self._name, line.rstrip())
        return process.wait()

    def _spawn(self) -> subprocess.Popen[str] | None:
        command = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), *self._argv]
        with self._lock:
            if self._stopping.is_set():
                return None
            # A session of its own: Ctrl-C reaches the server alone, which then stops its broker last.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            return self._process
