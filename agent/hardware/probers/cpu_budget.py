"""The CPU budget of this machine as its files and, live, the scheduler tell it."""

from __future__ import annotations

import os

from agent.hardware import cpu_list
from agent.hardware.budget import Budget, combine
from agent.hardware.probers import cgroup_limits, cpuinfo, topology
from agent.hardware.sysfs import Machine


class CpuBudgetProber:
    """min(online, affinity, quota). Online is the smaller of /sys and /proc/cpuinfo: lxcfs hides CPUs in the latter."""

    name = "cpu budget"

    def probe(self, machine: Machine) -> Budget:
        info = cpuinfo.read(machine)
        counts = [len(topology.online_cpus(machine, info)), len(info.per_cpu)]
        return combine(
            online=min((count for count in counts if count), default=None),
            affinity=_affinity(machine),
            quota=cgroup_limits.cpu_quota(machine),
        )


def _affinity(machine: Machine) -> int | None:
    """CPUs that this process may run on: the scheduler's word, else the recorded status and CPU set."""
    if machine.live:
        return len(os.sched_getaffinity(0))
    sets = [set(cpus) for cpus in (_allowed_in_status(machine), cgroup_limits.allowed_cpus(machine)) if cpus]
    return len(set.intersection(*sets)) or None if sets else None


def _allowed_in_status(machine: Machine) -> list[int] | None:
    for line in (machine.text("proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            try:
                return cpu_list.parse(value)
            except ValueError:
                machine.warn(f"proc/self/status: Cpus_allowed_list is not a CPU list: {value.strip()[:40]!r}")
    return None
