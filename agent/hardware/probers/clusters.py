"""Clusters: cores that share one cpufreq policy or topology cluster, the first thing that a thread count depends on.

On ARM a cluster is one policy, split by part; where every policy holds a single CPU (clocks per core) it is what the
topology says. On x86 policies say nothing (one per CPU), so a cluster is a core type of one package.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from agent.hardware import cpu_list
from agent.hardware.probers import cpuinfo, hybrid, lscpu, midr, topology, x86_cores
from agent.hardware.probers.topology import LogicalCpu
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import CpuCluster


class ClustersProber:
    """list[CpuCluster] by first CPU, clusters that are switched off included with `online` False."""

    name = "cpu clusters"

    def probe(self, machine: Machine) -> list[CpuCluster]:
        cpus = topology.read(machine)
        info = cpuinfo.read(machine)
        listed = lscpu.read(machine)
        if is_x86(info, listed):
            return x86_clusters(cpus, info, listed, hybrid.core_types(machine, cpus, info))
        return arm_clusters(cpus, listed)


def is_x86(info: cpuinfo.CpuInfo, listed: lscpu.Lscpu) -> bool:
    """By what only x86 prints: a vendor_id, or lscpu's architecture."""
    return info.first("vendor_id") is not None or (listed.value("architecture") or "") in ("x86_64", "i686", "i386")


# -- ARM and others


def arm_clusters(cpus: Sequence[LogicalCpu], listed: lscpu.Lscpu) -> list[CpuCluster]:
    """Pure. Every CPU is in exactly one cluster."""
    online = [cpu for cpu in cpus if cpu.online]
    clusters = [_arm_cluster(group, listed) for group in _groups(online, _arm_key(online))]
    offline = [cpu for cpu in cpus if not cpu.online]
    clusters += [_offline_cluster(group, online) for group in _groups(offline, lambda cpu: cpu.policy)]
    return sorted(clusters, key=_first_cpu)


def _arm_key(online: Sequence[LogicalCpu]) -> Callable[[LogicalCpu], Hashable]:
    """By policy; where policies are per core, by topology; where packages are per core (some VMs), by part alone."""
    policies = {cpu.policy for cpu in online}
    if None not in policies and (len(online) == 1 or any(len(policy or ()) > 1 for policy in policies)):
        return lambda cpu: (cpu.policy, cpu.part)
    if len(online) > 1 and len({_topology_key(cpu) for cpu in online}) == len(online):
        return lambda cpu: (cpu.part, cpu.max_mhz, cpu.capacity)
    return _topology_key


def _topology_key(cpu: LogicalCpu) -> Hashable:
    return (cpu.package, cpu.cluster, cpu.part, cpu.max_mhz, cpu.capacity)


def _arm_cluster(group: Sequence[LogicalCpu], listed: lscpu.Lscpu) -> CpuCluster:
    part = group[0].part
    cores = {cpu.core for cpu in group}
    threads_per_core = None
    if None not in cores:
        threads_per_core = _whole_ratio(len(group), len(cores))
    elif part is not None and part not in midr.MULTITHREADED_PARTS:
        threads_per_core = 1
    else:
        threads_per_core = listed.number("thread(s) per core")
    return CpuCluster(
        core=midr.core_name(part),
        cores=len(group) // threads_per_core if threads_per_core else None,
        logical_cpus=cpu_list.render(cpu.id for cpu in group),
        max_mhz=_highest(cpu.max_mhz for cpu in group),
        capacity=_highest(cpu.capacity for cpu in group),
        threads_per_core=threads_per_core,
        part=part,
        online=True,
    )


def _offline_cluster(group: Sequence[LogicalCpu], online: Sequence[LogicalCpu]) -> CpuCluster:
    """A CPU that is off tells its part only by a policy that it shares with one that is on."""
    ids = {cpu.id for cpu in group}
    parts = {cpu.part for cpu in group} | {cpu.part for cpu in online if cpu.policy and ids & set(cpu.policy)}
    parts.discard(None)
    part = parts.pop() if len(parts) == 1 else None
    single = part is not None and part not in midr.MULTITHREADED_PARTS
    return CpuCluster(
        core=midr.core_name(part),
        cores=len(group) if single else None,
        logical_cpus=cpu_list.render(ids),
        max_mhz=_highest(cpu.max_mhz for cpu in group),
        threads_per_core=1 if single else None,
        part=part,
        online=False,
    )


# -- x86


def x86_clusters(
    cpus: Sequence[LogicalCpu], info: cpuinfo.CpuInfo, listed: lscpu.Lscpu, types: dict[int, hybrid.CoreType]
) -> list[CpuCluster]:
    """Pure. `types` is empty for a CPU whose cores are alike."""
    online = [cpu for cpu in cpus if cpu.online]
    groups = _groups(online, lambda cpu: (types.get(cpu.id), cpu.package))
    threads = _threads_per_core(groups, types, listed)
    clusters = [_x86_cluster(group, info, types.get(group[0].id), threads[i]) for i, group in enumerate(groups)]
    offline = [cpu.id for cpu in cpus if not cpu.online]
    if offline:
        clusters.append(CpuCluster(logical_cpus=cpu_list.render(offline), online=False))
    return sorted(clusters, key=_first_cpu)


def _threads_per_core(
    groups: Sequence[Sequence[LogicalCpu]], types: dict[int, hybrid.CoreType], listed: lscpu.Lscpu
) -> list[int | None]:
    """By thread lists; else by lscpu, whose one figure holds for the cores that have two threads, if its sum fits."""
    known = [_whole_ratio(len(g), len({cpu.core for cpu in g})) if _cores_known(g) else None for g in groups]
    if None not in known:
        return known
    threads, per_socket = listed.number("thread(s) per core"), listed.number("core(s) per socket")
    sockets = listed.number("socket(s)")
    if threads is None or per_socket is None or sockets is None:
        return known
    guess = [threads if types.get(g[0].id) in (None, hybrid.CoreType.PERFORMANCE) else 1 for g in groups]
    cores = sum(len(g) // t for g, t in zip(groups, guess, strict=True))
    return list(guess) if cores == per_socket * sockets else known


def _cores_known(group: Sequence[LogicalCpu]) -> bool:
    return all(cpu.core is not None for cpu in group)


def _x86_cluster(
    group: Sequence[LogicalCpu], info: cpuinfo.CpuInfo, core_type: hybrid.CoreType | None, threads: int | None
) -> CpuCluster:
    cores = len({cpu.core for cpu in group}) if _cores_known(group) else len(group) // threads if threads else None
    return CpuCluster(
        core=x86_core_name(info, core_type),
        cores=cores,
        logical_cpus=cpu_list.render(cpu.id for cpu in group),
        max_mhz=_highest(cpu.max_mhz for cpu in group),
        capacity=_highest(cpu.capacity for cpu in group),
        threads_per_core=threads,
        online=True,
    )


def x86_core_name(info: cpuinfo.CpuInfo, core_type: hybrid.CoreType | None) -> str | None:
    vendor, family, model = info.first("vendor_id"), hybrid.number(info, "cpu family"), hybrid.number(info, "model")
    pair = x86_cores.hybrid(vendor, family, model)
    if core_type is None:
        return f"{pair.performance} or {pair.efficient}" if pair else x86_cores.core_name(vendor, family, model)
    if pair is None:
        return f"{core_type.value}-core, {x86_cores.core_name(vendor, family, model) or 'unknown model'}"
    return f"{pair.performance if core_type is hybrid.CoreType.PERFORMANCE else pair.efficient} ({core_type.value})"


# -- small pure parts


def _groups(cpus: Sequence[LogicalCpu], key: Callable[[LogicalCpu], Hashable]) -> list[list[LogicalCpu]]:
    """CPUs with equal keys, in the order of each group's first CPU."""
    found: dict[Hashable, list[LogicalCpu]] = {}
    for cpu in cpus:
        found.setdefault(key(cpu), []).append(cpu)
    return list(found.values())


def _highest(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known, default=None)


def _whole_ratio(threads: int, cores: int) -> int:
    """Threads per core; with one sibling switched off the ratio is not whole, and the fuller core counts."""
    return -(-threads // cores)


def _first_cpu(cluster: CpuCluster) -> int:
    return cpu_list.parse(cluster.logical_cpus or "0")[0]
