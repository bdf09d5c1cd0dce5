"""Memory bandwidth and arithmetic, measured once by a running daemon: in a child process, in its idle time.

It gives way to everything: it waits until the device is quiet and no update or tuning is under way, runs at the lowest
priority, and is ended at once when one begins; then it tries again later.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.clock import Clock
from agent.hardware import measure
from agent.hardware.sysfs import Machine, this_machine
from agent.measured_figures import are_known
from agent.tuning.kernel_counters import parse_stat
from edge_contracts.capabilities import Capabilities

_log = logging.getLogger(__name__)
AFTER_START_S = 60.0
LOOK_EVERY_S = 10.0
PATIENCE_S = 900.0
"""A device that is never quiet is measured as it is: that is all that it has to give."""
QUIET_CPUS = 0.3
GIVE_WAY_S = 0.1
STOP_S = 5.0


@dataclass(frozen=True)
class MeasuringParts:
    """``facts``: as known. ``keep``: takes them with the figures. ``is_busy``: an update or tuning is under way."""

    clock: Clock
    facts: Callable[[], Capabilities]
    keep: Callable[[Capabilities], None]
    is_busy: Callable[[], bool]
    cpus: frozenset[int]
    machine: Callable[[], Machine] = this_machine


class FirstMeasurement:
    """``start`` once, ``stop`` once."""

    def __init__(self, parts: MeasuringParts) -> None:
        self._parts = parts
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._was_interrupted = False
        self.is_running = False

    def start(self) -> None:
        """Returns at once; nothing is started where the figures are known."""
        if are_known(self._parts.facts()):
            return
        self._thread = threading.Thread(target=self.run, name="measuring", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends a child that runs."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def run(self) -> None:
        """The thread's body: until it is measured, cannot be, or ``stop``."""
        parts = self._parts
        load = _Load(parts)
        began_s = parts.clock.monotonic()
        wait_s = AFTER_START_S
        while not parts.clock.wait(self._stop, wait_s):
            wait_s = LOOK_EVERY_S
            is_quiet = load.other_cpus() < QUIET_CPUS
            if parts.is_busy() or not (is_quiet or parts.clock.monotonic() - began_s > PATIENCE_S):
                continue
            if self._measure():
                return

    def _measure(self) -> bool:
        """Whether that is settled."""
        machine, facts = self._parts.machine(), self._parts.facts()
        self._was_interrupted = False
        self.is_running = True
        try:
            measured = measure.measured(facts, machine, self._run_child)
        finally:
            self.is_running = False
        if self._was_interrupted:
            return False
        if are_known(measured):
            self._parts.keep(measured)
        else:
            _log.info("%s", "; ".join(machine.warnings) or "nothing could be measured")
        return True

    def _run_child(self, argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> tuple[bytes, str]:
        clock = self._parts.clock
        try:
            child = subprocess.Popen(
                argv, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            return b"", str(error)
        with child, contextlib.suppress(OSError):
            os.sched_setscheduler(child.pid, os.SCHED_IDLE, os.sched_param(0))
            ends_s = clock.monotonic() + timeout_s
            while child.poll() is None:
                is_late = clock.monotonic() > ends_s
                if is_late or self._parts.is_busy() or clock.wait(self._stop, GIVE_WAY_S):
                    self._was_interrupted = not is_late
                    child.kill()
                    return b"", f"no answer within {timeout_s:.0f} s"
            assert child.stdout is not None
            return child.stdout.read(), "" if child.returncode == 0 else f"exit status {child.returncode}"
        return b"", "the measuring process is gone"


class _Load:
    """What our CPUs were busy with between two looks."""

    def __init__(self, parts: MeasuringParts) -> None:
        self._parts = parts
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._last = self._look()

    def other_cpus(self) -> float:
        """CPUs' worth of time since the last call; 0 where the kernel does not tell."""
        before, self._last = self._last, self._look()
        span_s = self._last[0] - before[0]
        ticks = sum(max(0, count - before[1].get(cpu, count)) for cpu, count in self._last[1].items())
        return ticks / self._ticks_per_s / span_s if span_s > 0 else 0.0

    def _look(self) -> tuple[float, dict[int, int]]:
        times = parse_stat(self._parts.machine().text("proc/stat") or "")
        busy = times.busy_ticks if times is not None else {}
        return self._parts.clock.monotonic(), {cpu: count for cpu, count in busy.items() if cpu in self._parts.cpus}
