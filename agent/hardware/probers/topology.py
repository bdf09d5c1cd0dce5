"""What the kernel says about each logical CPU: which part it is, whom it shares a core and a clock with.

The kernel's ids are kept as they are; they may have holes when CPUs are switched off (a Jetson TX2 shows 0,3-5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.hardware import figures
from agent.hardware.cpu_list import MAX_CPU_ID
from agent.hardware.probers import cpuinfo, lscpu, midr
from agent.hardware.sysfs import Machine

CPU_DIR = "sys/devices/system/cpu"
NO_CLUSTER_IDS = (-1, 65535)
"""What topology/cluster_id holds where the platform does not say (ABI/stable/sysfs-devices-system-cpu)."""


@dataclass(frozen=True)
class LogicalCpu:
    """`core` is equal for threads of one core and None when unknown; `policy` holds all CPUs under one clock."""

    id: int
    online: bool
    part: str | None = None
    core: tuple[int, ...] | None = None
    policy: tuple[int, ...] | None = None
    package: int | None = None
    cluster: int | None = None
    max_mhz: int | None = None
    capacity: int | None = None
    l1_data_kb: int | None = None
    has_l3: bool | None = None


def read(machine: Machine) -> list[LogicalCpu]:
    """All present CPUs, those switched off included, by id."""
    info = cpuinfo.read(machine)
    online = online_cpus(machine, info)
    policies = _policies(machine)
    ids = sorted({*online, *_offline(machine, online)})
    shown, is_online = set(machine.names(CPU_DIR, r"cpu\d+")), set(online)
    found = [
        _read_cpu(machine, info, cpu, cpu in is_online, policies.get(cpu))
        if f"cpu{cpu}" in shown
        else _bare_cpu(machine, info, cpu, cpu in is_online, policies.get(cpu))
        for cpu in ids
    ]
    return _with_part_from_lscpu(machine, found)


def online_cpus(machine: Machine, info: cpuinfo.CpuInfo) -> list[int]:
    """From /sys, else /proc/cpuinfo (which lists online CPUs only), else recorded lscpu, else /proc/stat."""
    return (
        machine.cpus(f"{CPU_DIR}/online")
        or sorted(info.per_cpu)
        or lscpu.read(machine).online()
        or _cpus_of_stat(machine.text("proc/stat") or "")
    )


def _cpus_of_stat(text: str) -> list[int]:
    ids = (figures.whole(line.split(maxsplit=1)[0][3:]) for line in text.splitlines() if line.startswith("cpu"))
    return sorted(cpu for cpu in ids if cpu is not None and cpu <= MAX_CPU_ID)


def _offline(machine: Machine, online: list[int]) -> list[int]:
    """CPUs that are there and switched off. Without a `present` file a hole in the ids tells the same."""
    present = machine.cpus(f"{CPU_DIR}/present")
    if present is None:
        present = [*(machine.cpus(f"{CPU_DIR}/offline") or []), *range(max(online, default=-1) + 1)]
    return sorted(set(present) - set(online))


def _policies(machine: Machine) -> dict[int, tuple[int, ...]]:
    """CPU -> all CPUs of its cpufreq policy, offline ones included (related_cpus)."""
    policies: dict[int, tuple[int, ...]] = {}
    for name in machine.names(f"{CPU_DIR}/cpufreq", r"policy\d+"):
        related = machine.cpus(f"{CPU_DIR}/cpufreq/{name}/related_cpus")
        for cpu in related or []:
            policies[cpu] = tuple(related or [])
    return policies


def _bare_cpu(
    machine: Machine, info: cpuinfo.CpuInfo, cpu: int, online: bool, policy: tuple[int, ...] | None
) -> LogicalCpu:
    """A CPU without a folder of its own: what cpuinfo and its policy tell."""
    return LogicalCpu(
        id=cpu,
        online=online,
        part=info.part(cpu) if online else None,
        core=_core_of_cpuinfo(info, cpu),
        policy=policy,
        max_mhz=_max_mhz(machine, [f"{CPU_DIR}/cpufreq/policy{policy[0]}"]) if policy else None,
    )


def _read_cpu(
    machine: Machine, info: cpuinfo.CpuInfo, cpu: int, online: bool, policy: tuple[int, ...] | None
) -> LogicalCpu:
    here = f"{CPU_DIR}/cpu{cpu}"
    related = policy or tuple(machine.cpus(f"{here}/cpufreq/related_cpus") or ()) or None
    cluster = machine.integer(f"{here}/topology/cluster_id")
    l1_data_kb, has_l3 = _caches(machine, here)
    return LogicalCpu(
        id=cpu,
        online=online,
        part=_part(machine, here) or (info.part(cpu) if online else None),
        core=_core(machine, info, cpu),
        policy=related,
        package=machine.integer(f"{here}/topology/physical_package_id"),
        cluster=None if cluster in NO_CLUSTER_IDS else cluster,
        max_mhz=_max_mhz(machine, [f"{here}/cpufreq", *([f"{CPU_DIR}/cpufreq/policy{related[0]}"] if related else [])]),
        capacity=machine.integer(f"{here}/cpu_capacity"),
        l1_data_kb=l1_data_kb,
        has_l3=has_l3,
    )


def _part(machine: Machine, here: str) -> str | None:
    value = machine.integer(f"{here}/regs/identification/midr_el1")
    return midr.part_of_midr(value) if value is not None else None


def _core(machine: Machine, info: cpuinfo.CpuInfo, cpu: int) -> tuple[int, ...] | None:
    """The threads of this CPU's core where the kernel lists them, else ids that are equal for the same core."""
    here = f"{CPU_DIR}/cpu{cpu}/topology"
    threads = machine.cpus(f"{here}/core_cpus_list") or machine.cpus(f"{here}/thread_siblings_list")
    if threads:
        return (0, *threads)
    known = _core_of_cpuinfo(info, cpu)
    if known is not None or info.part(cpu) is not None:
        return known  # on ARM core_id alone repeats from cluster to cluster
    core_id = machine.integer(f"{here}/core_id")
    package_id = machine.integer(f"{here}/physical_package_id")
    return (2, package_id or 0, machine.integer(f"{here}/die_id") or 0, core_id) if core_id is not None else None


def _core_of_cpuinfo(info: cpuinfo.CpuInfo, cpu: int) -> tuple[int, ...] | None:
    core = figures.whole(info.value(cpu, "core id"))
    return (1, figures.whole(info.value(cpu, "physical id")) or 0, core) if core is not None else None


def _max_mhz(machine: Machine, places: list[str]) -> int | None:
    for place in places:
        khz = machine.integer(f"{place}/cpuinfo_max_freq")
        if khz:
            return round(khz / 1000)
    return None


def _caches(machine: Machine, here: str) -> tuple[int | None, bool | None]:
    """(kB of the level-1 data cache, whether this CPU reaches a level-3 cache); None where caches are not shown."""
    indexes = machine.names(f"{here}/cache", r"index\d+")
    l1_data_kb, levels = None, set()
    for index in indexes:
        level = machine.integer(f"{here}/cache/{index}/level")
        levels.add(level)
        size = machine.text(f"{here}/cache/{index}/size") or ""
        kind = machine.text(f"{here}/cache/{index}/type")
        if level == 1 and kind == "Data" and size.endswith("K"):
            l1_data_kb = l1_data_kb or figures.whole(size[:-1])
    return l1_data_kb, (3 in levels if indexes else None)


def _with_part_from_lscpu(machine: Machine, cpus: list[LogicalCpu]) -> list[LogicalCpu]:
    """Parts by lscpu's names where no file told them. One name for CPUs of unlike clocks is not believed."""
    if not cpus or any(cpu.part is not None for cpu in cpus):
        return cpus
    names = [model["model name"] for model in lscpu.read(machine).models]
    parts = [midr.part_of_name(name) for name in names]
    alike = len({(cpu.policy, cpu.package, cpu.cluster, cpu.max_mhz) for cpu in cpus if cpu.online}) == 1
    if len(parts) == 1 and alike:
        return [replace(cpu, part=parts[0]) if cpu.online else cpu for cpu in cpus]
    return cpus
