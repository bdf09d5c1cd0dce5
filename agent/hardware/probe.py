"""All facts of one machine: every prober once, its failure a warning, and the profile that fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from agent.hardware import profile_match
from agent.hardware.budget import Budget
from agent.hardware.prober import Prober
from agent.hardware.probers.accelerators.ascend import AscendProber
from agent.hardware.probers.accelerators.lspci import LspciProber
from agent.hardware.probers.accelerators.merge import merged
from agent.hardware.probers.accelerators.nodes import NodesProber
from agent.hardware.probers.accelerators.on_die import OnDieProber
from agent.hardware.probers.accelerators.pci import PciProber
from agent.hardware.probers.accelerators.usb import UsbProber
from agent.hardware.probers.board import BoardProber
from agent.hardware.probers.clusters import ClustersProber
from agent.hardware.probers.cpu_budget import CpuBudgetProber
from agent.hardware.probers.cpu_counts import CpuCounts, CpuCountsProber
from agent.hardware.probers.features import FeaturesProber
from agent.hardware.probers.memory import MemoryProber
from agent.hardware.probers.operating_system import OperatingSystemProber
from agent.hardware.probers.power import PowerModeProber
from agent.hardware.probers.thermal import ThermalProber
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import (
    Accelerator,
    BoardFacts,
    Capabilities,
    CpuCluster,
    CpuFacts,
    MemoryFacts,
    OsFacts,
    RuntimeFact,
    ThermalFacts,
)
from edge_contracts.profiles import Profile, load_profiles

Part = TypeVar("Part")


def probe(
    machine: Machine, runtimes: Sequence[RuntimeFact] = (), profiles: Sequence[Profile] | None = None
) -> Capabilities:
    """Never raises for what the machine holds; what was odd is in `machine.warnings` afterwards.

    `profiles` are those that may match; by default the ones that the product brings.
    """
    facts = Capabilities(
        board=guarded(machine, BoardProber(), BoardFacts()),
        os=guarded(machine, OperatingSystemProber(), OsFacts()),
        cpu=_cpu(machine),
        memory=guarded(machine, MemoryProber(), MemoryFacts()),
        accelerators=_accelerators(machine),
        thermal=guarded(machine, ThermalProber(), ThermalFacts()),
        power_mode=guarded(machine, PowerModeProber(), None),
        runtimes=list(runtimes),
    )
    known = load_profiles() if profiles is None else profiles
    return profile_match.completed(facts, known, bus_seen=bool(machine.names("sys/bus/pci/devices")))


def guarded(machine: Machine, prober: Prober[Part], without: Part) -> Part:
    """The prober's part, or `without` and a warning if it fails: one odd file must not cost the other facts."""
    try:
        return prober.probe(machine)
    except Exception as error:  # noqa: BLE001 - boards nobody has seen; any error of one prober is that part unknown
        machine.warn(f"{prober.name}: not known, the prober failed: {type(error).__name__}: {error}")
        return without


def _cpu(machine: Machine) -> CpuFacts:
    counts = guarded(machine, CpuCountsProber(), CpuCounts())
    budget = guarded(machine, CpuBudgetProber(), Budget())
    clusters: list[CpuCluster] = guarded(machine, ClustersProber(), [])
    cores = [cluster.cores for cluster in clusters if cluster.online is not False]
    known = [count for count in cores if count is not None]
    return CpuFacts(
        model=counts.model,
        physical_cores=sum(known) if known and len(known) == len(cores) else None,
        logical_cpus=counts.logical_cpus,
        online=counts.online,
        clusters=clusters,
        features=guarded(machine, FeaturesProber(), {}),
        budget_cpus=budget.cpus,
        budget_source=budget.source,
    )


def _accelerators(machine: Machine) -> list[Accelerator]:
    probers: list[Prober[list[Accelerator]]] = [
        PciProber(),
        LspciProber(),
        OnDieProber(),
        UsbProber(),
        AscendProber(),
        NodesProber(),
    ]
    return merged(guarded(machine, prober, []) for prober in probers)
