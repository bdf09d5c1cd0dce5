"""What a device is: the facts that `mindie probe --json` prints and that a birth message carries.

The shape is the contract. Invariants:

- None means unknown, never "no". A feature that is known to be absent is False.
- Unknown fields are tolerated, unknown enum values decode to UNKNOWN: devices and servers are updated at other times.
- CPU numbers are the kernel's logical ids; lists of them use the kernel's own form ("0,3-5").
"""

from __future__ import annotations

import enum
import hashlib
from typing import Any

import msgspec

from edge_contracts.errors import MalformedMessage


class AcceleratorKind(str, enum.Enum):
    """What an accelerator is; the `target` of a variant is derived from it (npu and tpu are vpu targets too)."""

    GPU = "gpu"
    NPU = "npu"
    VPU = "vpu"
    TPU = "tpu"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> AcceleratorKind:
        return cls.UNKNOWN

    def __str__(self) -> str:
        return self.value


class AcceleratorStatus(str, enum.Enum):
    """How far an accelerator is ready, from "a runtime may open it now" down to "it is only there"."""

    USABLE = "usable"
    PRESENT = "present"
    NO_DRIVER = "no-driver"
    NO_PERMISSION = "no-permission"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> AcceleratorStatus:
        return cls.UNKNOWN

    def __str__(self) -> str:
        return self.value


class RuntimeStatus(str, enum.Enum):
    """The values of `RuntimeFact.status`; the field itself is a plain string so that old readers keep new values."""

    USABLE = "usable"
    MISSING = "missing"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class BudgetSource(str, enum.Enum):
    """Which of the three limits on CPU time is the tightest."""

    CGROUP = "cgroup"
    AFFINITY = "affinity"
    CORES = "cores"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> BudgetSource:
        return cls.UNKNOWN

    def __str__(self) -> str:
        return self.value


class BoardFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The board. `profile` names the firmware profile that matched; `compatible` is the device tree's list."""

    model: str | None = None
    soc: str | None = None
    profile: str | None = None
    vendor: str | None = None
    compatible: list[str] = msgspec.field(default_factory=list)


class OsFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`id` and `version` are os-release's; `userland_bits` is that of the programs, which may be 32 under aarch64."""

    id: str | None = None
    version: str | None = None
    kernel: str | None = None
    kernel_arch: str | None = None
    userland_bits: int | None = None
    userland_arch: str | None = None
    """The architecture whose packages this userland takes: aarch64, armv7l, armv6l, x86_64, ..."""
    firmware: str | None = None
    """The vendor's own release where there is one, e.g. "L4T R32.7.6"."""


class CpuCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Cores that share one cpufreq policy or topology cluster. The name of an unknown part is its hex: "0x41/0xfff".

    CPUs that are present and switched off are clusters of their own with `online` False; the counts of CpuFacts leave
    them out.
    """

    core: str | None = None
    cores: int | None = None
    """Physical cores."""
    logical_cpus: str | None = None
    """Kernel list form, e.g. "0,3-5"."""
    max_mhz: int | None = None
    capacity: int | None = None
    """The kernel's cpu_capacity: 1024 is the strongest core of this machine."""
    threads_per_core: int | None = None
    part: str | None = None
    online: bool | None = None


class CpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`budget_cpus` is min(affinity, cgroup quota, online CPUs); the counts are those of the CPUs that are online."""

    model: str | None = None
    physical_cores: int | None = None
    logical_cpus: int | None = None
    online: str | None = None
    clusters: list[CpuCluster] = msgspec.field(default_factory=list)
    features: dict[str, bool | None] = msgspec.field(default_factory=dict)
    budget_cpus: float | None = None
    budget_source: BudgetSource = BudgetSource.UNKNOWN
    gflops_fp32: float | None = None


class MemoryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Mebibytes. `limit_mb` is the tightest cgroup limit, None when none is known."""

    total_mb: int | None = None
    nominal_mb: int | None = None
    """What is soldered on, where the board's own revision code says so; `total_mb` is what the kernel sees of it."""
    available_mb: int | None = None
    limit_mb: int | None = None
    bandwidth_gb_s: float | None = None


class Accelerator(msgspec.Struct, frozen=True, kw_only=True):
    """One device, or `count` equal ones. `detail` says what is missing when the status is not usable."""

    kind: AcceleratorKind = AcceleratorKind.UNKNOWN
    vendor: str | None = None
    name: str | None = None
    status: AcceleratorStatus = AcceleratorStatus.UNKNOWN
    detail: str | None = None
    driver: str | None = None
    device_node: str | None = None
    bus_id: str | None = None
    """Ids on its bus, "pci 8086:7d1d" or "usb 1a6e:089a"."""
    count: int = 1
    memory_mb: int | None = None
    memory_used_mb: int | None = None
    temp_c: float | None = None
    power_w: float | None = None
    health: str | None = None
    unified_memory: bool | None = None
    compute: dict[str, float] | None = None
    """What `--measure` found, e.g. {"gflops_fp32": 2100.0}."""


class ThermalZone(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    temp_c: float | None = None
    """None when the zone exists and could not be read."""
    passive_c: float | None = None
    """The trip point at which the kernel begins to slow the machine."""
    critical_c: float | None = None


class Throttling(msgspec.Struct, frozen=True, kw_only=True):
    """Slowing by heat, power or a frequency limit. `reasons` are plain words, empty when nothing is held back."""

    now: bool | None = None
    since_boot: bool | None = None
    reasons: list[str] = msgspec.field(default_factory=list)
    source: str | None = None


class ThermalFacts(msgspec.Struct, frozen=True, kw_only=True):
    zones: list[ThermalZone] = msgspec.field(default_factory=list)
    throttled: Throttling | None = None
    """None when nothing on this board tells."""


class RuntimeFact(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime as found on the device by an import probe. `status` is usable, missing or broken (RuntimeStatus)."""

    name: str
    version: str | None = None
    targets: list[str] = msgspec.field(default_factory=list)
    status: str = RuntimeStatus.UNKNOWN.value
    detail: str | None = None
    providers: list[str] | None = None
    """Execution providers or devices that the installed build says it has, in its own words; None: not asked."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of one device at one moment."""

    board: BoardFacts = msgspec.field(default_factory=BoardFacts)
    os: OsFacts = msgspec.field(default_factory=OsFacts)
    cpu: CpuFacts = msgspec.field(default_factory=CpuFacts)
    memory: MemoryFacts = msgspec.field(default_factory=MemoryFacts)
    accelerators: list[Accelerator] = msgspec.field(default_factory=list)
    thermal: ThermalFacts = msgspec.field(default_factory=ThermalFacts)
    power_mode: str | None = None
    runtimes: list[RuntimeFact] = msgspec.field(default_factory=list)


def decode(data: bytes | dict[str, Any]) -> Capabilities:
    """Capabilities from JSON bytes or an already parsed object. Raises MalformedMessage."""
    try:
        if isinstance(data, dict):
            return msgspec.convert(data, Capabilities)
        return msgspec.json.decode(data, type=Capabilities)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedMessage("capabilities", str(error)) from error


def to_json_bytes(capabilities: Capabilities) -> bytes:
    """One JSON document; unknown facts are written as null so that a reader sees what was asked and not found."""
    return msgspec.json.encode(capabilities)


def topology_key(capabilities: Capabilities) -> str:
    """16 hex digits that change when the CPU does: its features, clusters, model or SoC.

    Budget, frequency right now and which CPUs are online by chance are no part of it: a choice measured on this
    silicon stays comparable, the budget is a key of its own.
    """
    cpu = capabilities.cpu
    identity = {
        "soc": capabilities.board.soc,
        "model": cpu.model,
        "features": sorted(name for name, present in cpu.features.items() if present),
        "clusters": [[c.core, c.part, c.cores, c.max_mhz, c.threads_per_core] for c in cpu.clusters],
    }
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()[:16]
