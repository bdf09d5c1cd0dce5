"""What the device tells every few seconds: latency by stage, and how much of the machine mindie itself uses.

Read from /proc and /sys directly: psutil would double the daemon's memory for three numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.hardware.probers import throttling
from agent.hardware.sysfs import Machine
from edge_contracts.messages import StageLatency, Telemetry

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Usage:
    """Of this process and all below it: resident bytes (shared pages counted once per process), CPU seconds so far."""

    rss_bytes: int
    cpu_s: float


def usage(proc: Path, pid: int) -> Usage:
    """Walk the tree of processes from ``pid``; one that ends meanwhile counts as nothing."""
    ticks_per_s, page_bytes = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    rss_bytes, ticks, waiting = 0, 0, [pid]
    while waiting:
        current = proc / str(waiting.pop())
        try:
            fields = (current / "stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[11:15])  # utime, stime, and those of children already gone
            rss_bytes += int((current / "statm").read_text().split()[1]) * page_bytes
            waiting += [
                int(child) for task in (current / "task").iterdir() for child in (task / "children").read_text().split()
            ]
        except (OSError, IndexError, ValueError):
            continue
    return Usage(rss_bytes, ticks / ticks_per_s)


def hottest_c(sys_root: Path) -> float | None:
    """The hottest thermal zone, None when none can be read."""
    temperatures: list[float] = []
    for zone in (sys_root / "class" / "thermal").glob("thermal_zone*/temp"):
        try:
            temperatures.append(int(zone.read_text()) / 1000)
        except (OSError, ValueError):
            continue
    plausible = [value for value in temperatures if -40 < value < 200]
    return max(plausible, default=None)


def throttled_now(machine: Machine) -> bool | None:
    """Whether heat, power or a limit on its clock slows the device; None where nothing tells."""
    found = throttling.read(machine)
    return None if found is None else found.now


class Telemeter:
    """Makes one Telemetry for each span between two calls of ``read``."""

    def __init__(
        self, take: Callable[[], Mapping[str, StageLatency]], dropped: Callable[[], int], now_ms: Callable[[], int],
        monotonic: Callable[[], float], proc: Path = Path("/proc"), sys_root: Path = Path("/sys"),
        throttled: Callable[[], bool | None] = lambda: None,
    ) -> None:  # fmt: skip
        self._take = take
        self._dropped = dropped
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._proc = proc
        self._sys_root = sys_root
        self._throttled = throttled
        self._last: tuple[int, float, Usage] | None = None

    def start(self) -> None:
        """The first span begins now."""
        self._last = (self._now_ms(), self._monotonic(), usage(self._proc, os.getpid()))

    def read(self) -> Telemetry:
        """The span since the last call."""
        if self._last is None:
            self.start()
        assert self._last is not None
        from_ms, from_s, before = self._last
        self.start()
        to_ms, to_s, after = self._last
        percent = 100 * max(0.0, after.cpu_s - before.cpu_s) / max(1e-3, to_s - from_s)
        return Telemetry(
            session=0, from_ms=from_ms, to_ms=to_ms, models=dict(self._take()),
            rss_mb=round(after.rss_bytes / MEBIBYTE, 1), cpu_percent=round(percent, 1),
            temp_c=hottest_c(self._sys_root), throttled=self._throttled(), dropped_messages=self._dropped(),
        )  # fmt: skip
