"""Which CPUs of a hybrid x86 are performance, efficient or low-power efficient cores.

In order of trust: the kernel's own lists (one per core type's counters), the level-1 data cache (the larger is the
performance core's), threads (only performance cores have two), the top clock. A low-power efficient core is an
efficient one that does not reach the level-3 cache, or clocks far below its kind.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence

from agent.hardware import figures
from agent.hardware.probers import cpuinfo, x86_cores
from agent.hardware.probers.topology import LogicalCpu
from agent.hardware.sysfs import Machine

SAME_KIND_CLOCK_RATIO = 0.85
"""Performance cores clock within a few percent of each other, efficient ones at most 0.81 of them (Arrow Lake-S)."""


class CoreType(enum.Enum):
    PERFORMANCE = "P"
    EFFICIENT = "E"
    LOW_POWER = "LP-E"


def core_types(machine: Machine, cpus: Sequence[LogicalCpu], info: cpuinfo.CpuInfo) -> dict[int, CoreType]:
    """CPU id -> type of the online CPUs; empty when the cores are alike or cannot be told apart."""
    performance = machine.cpus("sys/devices/cpu_core/cpus")
    efficient = machine.cpus("sys/devices/cpu_atom/cpus")
    low_power = machine.cpus("sys/devices/cpu_lowpower/cpus") or []
    online = [cpu for cpu in cpus if cpu.online]
    if performance and efficient:
        fast = set(performance)
    elif x86_cores.hybrid(info.first("vendor_id"), number(info, "cpu family"), number(info, "model")):
        fast = fast_cpus(online)
    else:
        return {}
    if not fast:
        return {}
    slow = [cpu for cpu in online if cpu.id not in fast]
    types = {cpu.id: CoreType.PERFORMANCE for cpu in online if cpu.id in fast}
    types.update({cpu.id: CoreType.EFFICIENT for cpu in slow})
    types.update({cpu.id: CoreType.LOW_POWER for cpu in slow if cpu.id in low_power or is_low_power(cpu, slow, online)})
    return types


def fast_cpus(online: Sequence[LogicalCpu]) -> set[int]:
    """The performance cores; empty when nothing tells them apart. Pure."""
    caches = {cpu.l1_data_kb for cpu in online if cpu.l1_data_kb is not None}
    if len(caches) > 1:
        return {cpu.id for cpu in online if cpu.l1_data_kb == max(caches)}
    members = Counter(cpu.core for cpu in online if cpu.core is not None)
    shared = {core for core, threads in members.items() if threads > 1}
    if shared and len(shared) < len(members):
        return {cpu.id for cpu in online if cpu.core in shared}
    clocks = [cpu.max_mhz for cpu in online if cpu.max_mhz]
    if len(clocks) == len(online) and clocks and min(clocks) < SAME_KIND_CLOCK_RATIO * max(clocks):
        return {cpu.id for cpu in online if (cpu.max_mhz or 0) >= SAME_KIND_CLOCK_RATIO * max(clocks)}
    return set()


def is_low_power(cpu: LogicalCpu, slow: Sequence[LogicalCpu], online: Sequence[LogicalCpu]) -> bool:
    if cpu.has_l3 is not None:
        return not cpu.has_l3 and any(other.has_l3 for other in online)
    clocks = [other.max_mhz for other in slow if other.max_mhz]
    return bool(cpu.max_mhz and clocks and cpu.max_mhz < SAME_KIND_CLOCK_RATIO * max(clocks))


def number(info: cpuinfo.CpuInfo, key: str) -> int | None:
    return figures.whole(info.first(key))
