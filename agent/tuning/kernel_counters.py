"""The kernel's own formats for CPU time, waiting and limits: pure parsers. What makes no sense is None, never an error.

Sources: proc(5); Documentation/accounting/psi.rst; Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpu.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.hardware import figures


@dataclass(frozen=True)
class CpuTimes:
    """/proc/stat: ticks since boot that each CPU was busy (idle and waiting for a disk left out), and tasks running."""

    busy_ticks: dict[int, int]
    running: int | None


def parse_stat(text: str) -> CpuTimes | None:
    """Time stolen by a hypervisor counts as busy: others had it."""
    busy: dict[int, int] = {}
    running: int | None = None
    for line in text.splitlines():
        name, *fields = line.split()[:9] or [""]
        if re.fullmatch(r"cpu\d+", name) and len(fields) >= 4:
            ticks = [figures.whole(value) for value in fields]
            if None not in ticks:
                busy[int(name[3:])] = sum(ticks[i] or 0 for i in range(len(ticks)) if i not in (3, 4))
        elif name == "procs_running" and fields:
            running = figures.whole(fields[0])
    return CpuTimes(busy, running) if busy else None


def parse_pressure_us(text: str) -> int | None:
    """Microseconds since boot in which some task waited: ``total`` of the line "some avg10=0.12 ... total=123"."""
    match = re.search(r"^some .*\btotal=(\d+)", text, flags=re.MULTILINE)
    return figures.whole(match.group(1)) if match else None


def parse_load_1m(text: str) -> float | None:
    """/proc/loadavg: the first figure."""
    fields = text.split()
    return figures.real(fields[0]) if fields else None


@dataclass(frozen=True)
class Throttled:
    """A control group's cpu.stat: how often and for how long its quota held it back, since it was made."""

    count: int
    time_us: int


def parse_cpu_stat(text: str) -> Throttled | None:
    """v2 has throttled_usec, v1 throttled_time in nanoseconds. None where no quota is accounted for."""
    values = {name: int(value) for name, value in re.findall(r"^(\w+) (\d{1,20})$", text, flags=re.MULTILINE)}
    if "nr_throttled" not in values:
        return None
    return Throttled(values["nr_throttled"], values.get("throttled_usec", values.get("throttled_time", 0) // 1000))
