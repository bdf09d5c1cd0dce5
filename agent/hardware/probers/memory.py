"""Memory: what the kernel sees, what is free, what a control group leaves of it."""

from __future__ import annotations

import re

from agent.hardware import figures
from agent.hardware.probers import cgroup_limits, raspberry_pi
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import MemoryFacts

MIB = 1 << 20
UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class MemoryProber:
    """MemoryFacts without `bandwidth_gb_s`, which only a measurement tells.

    `available_mb` is what a new process may take without swapping: the kernel's estimate, and under a control group no
    more than what the group has left.
    """

    name = "memory"

    def probe(self, machine: Machine) -> MemoryFacts:
        info = parse_meminfo(machine.text("proc/meminfo") or "")
        printed = parse_free(machine.recorded("free-h", "free") or "")
        total = info.get("MemTotal") or printed.get("total")
        available = info.get("MemAvailable") or _estimated(info) or printed.get("available")
        limit = cgroup_limits.memory_limit_bytes(machine)
        if limit is not None and total is not None and limit >= total:
            limit = None
        if limit is not None:
            left = max(0, limit - (cgroup_limits.memory_in_use_bytes(machine) or 0))
            available = left if available is None else min(available, left)
        return MemoryFacts(
            total_mb=_mib(total),
            available_mb=_mib(available),
            limit_mb=_mib(limit),
            nominal_mb=raspberry_pi.memory_mb(machine),
        )


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes by name, from lines "MemTotal:  16337404 kB". Pure."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB\s*$", text, flags=re.MULTILINE)
    sizes = {name: figures.whole(value) for name, value in lines}
    return {name: size * 1024 for name, size in sizes.items() if size is not None}


def parse_free(text: str) -> dict[str, int]:
    """Bytes by column, from the "Mem:" line of free(1) in any unit; "15Gi" is 15 GiB, rounded by free itself. Pure."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    header = next((line for line in lines if "total" in line), [])
    row = next((line[1:] for line in lines if line[0] == "Mem:"), [])
    found = {}
    for column, value in zip(header, row, strict=False):
        size = _size(value)
        if size is not None:
            found[column] = size
    return found


def _size(text: str) -> int | None:
    match = re.fullmatch(r"([\d.,]+)([BKMGT])?i?B?", text)
    if match is None:
        return None
    unit = match.group(2) or "K"  # free(1) prints kibibytes unless told otherwise
    number = figures.real(match.group(1).replace(",", "."))
    return int(number * UNITS[unit]) if number is not None else None


def _estimated(info: dict[str, int]) -> int | None:
    """Kernels before 3.14 have no MemAvailable: free and droppable pages, as free(1) did."""
    if "MemFree" not in info:
        return None
    return info["MemFree"] + info.get("Buffers", 0) + info.get("Cached", 0)


def _mib(size_bytes: int | None) -> int | None:
    return size_bytes // MIB if size_bytes is not None else None
