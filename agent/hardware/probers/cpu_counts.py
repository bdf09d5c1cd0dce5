"""How many CPUs, by the kernel's numbers, and what the maker calls them."""

from __future__ import annotations

from typing import NamedTuple

from agent.hardware import cpu_list
from agent.hardware.probers import cpuinfo, lscpu, topology
from agent.hardware.sysfs import Machine

X86_VENDORS = ("GenuineIntel", "AuthenticAMD")


class CpuCounts(NamedTuple):
    """`online` in the kernel's list form; `model` only where it names a product ("ARMv8 Processor rev 1" does not)."""

    model: str | None = None
    online: str | None = None
    logical_cpus: int | None = None


class CpuCountsProber:
    name = "cpu counts"

    def probe(self, machine: Machine) -> CpuCounts:
        info = cpuinfo.read(machine)
        online = topology.online_cpus(machine, info)
        return CpuCounts(
            model=model_name(info.first("model name") or x86_model_of(lscpu.read(machine))),
            online=cpu_list.render(online) or None,
            logical_cpus=len(online) or lscpu.read(machine).number("cpu(s)"),
        )


def x86_model_of(listed: lscpu.Lscpu) -> str | None:
    """On ARM lscpu's model name is that of a core, which the clusters carry."""
    return listed.value("model name") if listed.value("vendor id") in X86_VENDORS else None


def model_name(text: str | None) -> str | None:
    """Without the runs of blanks that firmware pads with; None for ARM's generic words. Pure."""
    if text is None or "Processor rev" in text:
        return None
    return " ".join(text.split()) or None
