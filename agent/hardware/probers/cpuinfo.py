"""/proc/cpuinfo, read for what it can be trusted with: the CPUs that are online, their parts and their flags.

What varies between machines and is handled here: records of one CPU split by blank lines (Ascend 310), numbers with
holes (offline CPUs), one global record at the end instead of one per CPU (old 32-bit and early 64-bit ARM kernels),
and trailing board lines (`Hardware`, `Revision`, `Model`) that belong to no CPU. `Hardware` is never used: every
Raspberry Pi since the first says BCM2835 there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.hardware import figures
from agent.hardware.cpu_list import MAX_CPU_ID
from agent.hardware.sysfs import Machine


@dataclass(frozen=True)
class CpuInfo:
    """`per_cpu` maps the kernel's CPU id to that CPU's keys (lower case); `shared` has the keys outside any record."""

    per_cpu: dict[int, dict[str, str]] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)

    def value(self, cpu: int, key: str) -> str | None:
        """The CPU's own value, else the one that is given once for all of them."""
        return self.per_cpu.get(cpu, {}).get(key) or self.shared.get(key)

    def first(self, key: str) -> str | None:
        """The value of the lowest CPU that has one, else the shared one."""
        for cpu in sorted(self.per_cpu):
            if value := self.per_cpu[cpu].get(key):
                return value
        return self.shared.get(key)

    def part(self, cpu: int) -> str | None:
        """Implementer and part as "0x41/0xd08"; None where the CPU is no ARM or does not say."""
        implementer, part = self.value(cpu, "cpu implementer"), self.value(cpu, "cpu part")
        if implementer is None or part is None:
            return None
        try:
            return f"0x{int(implementer, 16):02x}/0x{int(part, 16):03x}"
        except ValueError:
            return None

    def flags(self) -> list[str] | None:
        """Features that every CPU has (a thread may run on any of them); None when no CPU lists any."""
        records = self.per_cpu.values()
        lists = [set(cpu[key].split()) for cpu in records for key in ("flags", "features") if cpu.get(key)]
        if not lists:
            shared = self.shared.get("features") or self.shared.get("flags")
            lists = [set(shared.split())] if shared else []
        return sorted(set.intersection(*lists)) if lists else None


def parse(text: str) -> CpuInfo:
    """Never fails: lines that are no "key : value" are skipped."""
    per_cpu: dict[int, dict[str, str]] = {}
    shared: dict[str, str] = {}
    record = shared
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        key, value = name.strip().lower(), value.strip()
        if not colon or not key:
            continue
        cpu = figures.whole(value) if key == "processor" else None
        if cpu is not None and cpu <= MAX_CPU_ID:
            record = per_cpu.setdefault(cpu, {})
        elif name.strip() in ("Hardware", "Revision", "Serial", "Model"):
            shared[key] = value
        else:
            record[key] = value
    if not per_cpu and "cpu part" in shared:
        per_cpu[0] = {}  # a single-core kernel numbers nothing
    return CpuInfo(per_cpu=per_cpu, shared=_hoisted(per_cpu, shared))


def _hoisted(per_cpu: dict[int, dict[str, str]], shared: dict[str, str]) -> dict[str, str]:
    """On kernels that describe all CPUs once, that description follows the last `processor` line and landed there."""
    holders = [cpu for cpu, record in per_cpu.items() if "cpu part" in record]
    if len(per_cpu) > 1 and len(holders) == 1 and holders[0] == max(per_cpu):
        last = per_cpu[holders[0]]
        return {**{k: v for k, v in last.items() if k.startswith("cpu ") or k == "features"}, **shared}
    return shared


def read(machine: Machine) -> CpuInfo:
    return parse(machine.text("proc/cpuinfo") or "")
