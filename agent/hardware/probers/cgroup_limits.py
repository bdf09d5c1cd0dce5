"""The limits that control groups set: CPU quota, CPU set and memory, v1 and v2, the tightest of all levels.

A file that makes no sense ("x y z", a zero period, letters) is no limit and one warning, never zero CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from agent.hardware import figures
from agent.hardware.probers import cgroup_path
from agent.hardware.sysfs import Machine

DEFAULT_PERIOD_US = 100_000
"""The kernel's period where cpu.max has only a quota (cgroup-v2.rst)."""

V1_UNLIMITED_BYTES = tuple(str((1 << 63) - page) for page in (1, 4096, 16384, 65536))
"""v1 says "no limit" with 2^63 less a page; ARM kernels have pages of three sizes."""


Limit = TypeVar("Limit", int, float)


class _DamagedError(ValueError):
    """Text that is no limit; str(error) says why."""


def cpu_quota(machine: Machine) -> float | None:
    """CPUs' worth of time that this process may use, e.g. 1.5; None without a limit."""
    v1 = [_v1_quota(machine, d) for d in cgroup_path.directories(machine, "cpu")]
    v2 = [_read(machine, f"{d}/cpu.max", parse_cpu_max) for d in cgroup_path.directories(machine, cgroup_path.V2)]
    return _tightest([*v1, *v2])


def memory_limit_bytes(machine: Machine) -> int | None:
    """None when there is no limit or the memory controller is off (a Raspberry Pi without cgroup_enable=memory)."""
    found: list[int | None] = []
    for directory in cgroup_path.directories(machine, "memory"):
        found.append(_read(machine, f"{directory}/memory.limit_in_bytes", parse_memory_limit))
    for directory in cgroup_path.directories(machine, cgroup_path.V2):
        found.append(_read(machine, f"{directory}/memory.max", parse_memory_limit))
        found.append(_read(machine, f"{directory}/memory.high", parse_memory_limit))
    known = [limit for limit in found if limit is not None]
    return min(known) if known else None


def memory_in_use_bytes(machine: Machine) -> int | None:
    """What the innermost group with a limit uses, page cache that can be dropped left out."""
    for controller, current in (("memory", "memory.usage_in_bytes"), (cgroup_path.V2, "memory.current")):
        for directory in cgroup_path.directories(machine, controller)[:1]:
            used = machine.integer(f"{directory}/{current}")
            if used is not None:
                return max(0, used - _inactive_file_bytes(machine.text(f"{directory}/memory.stat") or ""))
    return None


def allowed_cpus(machine: Machine) -> list[int] | None:
    """The CPU set of the group; None where none is set."""
    for controller, names in (
        (cgroup_path.V2, ("cpuset.cpus.effective", "cpuset.cpus")),
        ("cpuset", ("cpuset.effective_cpus", "cpuset.cpus")),
    ):
        for directory in cgroup_path.directories(machine, controller):
            for name in names:
                cpus = machine.cpus(f"{directory}/{name}")
                if cpus:
                    return cpus
    return None


# -- the files' own formats, pure


def parse_cpu_max(text: str) -> float | None:
    """v2 "QUOTA [PERIOD]" in microseconds, QUOTA may be "max"."""
    fields = text.split()
    if not 1 <= len(fields) <= 2:
        raise _DamagedError(f"expected QUOTA PERIOD, got {len(fields)} fields")
    period_us = _positive(fields[1]) if len(fields) == 2 else DEFAULT_PERIOD_US
    return None if fields[0] == "max" else _positive(fields[0]) / period_us


def parse_v1_quota(quota: str, period: str) -> float | None:
    """v1 has two files; a quota of -1 is no limit."""
    return None if quota.strip() == "-1" else _positive(quota) / _positive(period)


def parse_memory_limit(text: str) -> int | None:
    if text.strip() in ("max", "-1", *V1_UNLIMITED_BYTES):
        return None
    return _positive(text)


def _positive(text: str) -> int:
    number = figures.whole(text)
    if not number:
        raise _DamagedError(f"expected a number above 0, got {text.strip()[:40]!r}")
    return number


# -- reading with a warning instead of an error


def _read(machine: Machine, path: str, parse: Callable[[str], Limit | None]) -> Limit | None:
    content = machine.raw(path)
    if content is None:
        return None
    try:
        return parse(content.decode("utf-8", "replace"))
    except _DamagedError as error:
        machine.warn(f"{path}: {error}; taken as no limit")
        return None


def _v1_quota(machine: Machine, directory: str) -> float | None:
    period = machine.raw(f"{directory}/cpu.cfs_period_us")

    def parse(quota: str) -> float | None:
        return parse_v1_quota(quota, (period or b"").decode("utf-8", "replace"))

    return _read(machine, f"{directory}/cpu.cfs_quota_us", parse)


def _tightest(limits: Iterable[float | None]) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _inactive_file_bytes(stat: str) -> int:
    for line in stat.splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return figures.whole(value) or 0
    return 0
