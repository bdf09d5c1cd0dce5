"""Names of NVIDIA's discrete GPUs from the driver's own files; nothing is executed for them."""

from __future__ import annotations

import re

import msgspec

from agent.hardware import figures
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind, AcceleratorStatus

GPU_DIR = "proc/driver/nvidia/gpus"
SLOT = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", re.IGNORECASE)


def with_details(machine: Machine, found: list[Accelerator]) -> list[Accelerator]:
    """`found` with names and driver versions of NVIDIA's GPUs, and GPUs that only the driver shows (containers)."""
    names = _names(machine)
    named = [_named(gpu, names, driver_version(machine)) for gpu in found]
    if any(gpu.vendor == "NVIDIA" for gpu in found):
        return named
    return [*named, *(_only_by_driver(machine, slot, name) for slot, name in names.items()), *_printed(machine, names)]


def driver_version(machine: Machine) -> str | None:
    """From "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  ..."."""
    match = re.search(r"Kernel Module(?: for \w+)?\s+([\d.]+)", machine.text("proc/driver/nvidia/version") or "")
    return match.group(1) if match else None


def parse_table(text: str) -> list[tuple[str, int | None]]:
    """(name, memory in MiB) for each GPU of `nvidia-smi`'s table, or of --query-gpu=name,memory.total. Pure."""
    csv = re.findall(r"^([^,|\n+]+), (\d+)(?: MiB)?\s*$", text, flags=re.MULTILINE)
    if csv:
        return [(name.strip(), figures.whole(size)) for name, size in csv]
    names = re.findall(r"^\|\s+\d+\s+(\S.*?)\s+(?:On|Off|N/A)\s+\|", text, flags=re.MULTILINE)
    sizes = re.findall(r"\d+MiB\s*/\s*(\d+)MiB", text)
    return [(name, figures.whole(sizes[i]) if i < len(sizes) else None) for i, name in enumerate(names)]


def _names(machine: Machine) -> dict[str, str]:
    names = {}
    for slot in machine.names(GPU_DIR):
        information = machine.text(f"{GPU_DIR}/{slot}/information") or ""
        match = re.search(r"^Model:\s*(.+?)\s*$", information, flags=re.MULTILINE)
        if match:
            names[slot.lower()] = match.group(1)
    return names


def _named(gpu: Accelerator, names: dict[str, str], version: str | None) -> Accelerator:
    if gpu.vendor != "NVIDIA" or gpu.kind is not AcceleratorKind.GPU:
        return gpu
    slot = SLOT.search(gpu.bus_id or "")
    name = names.get(slot.group(0).lower()) if slot else None
    driver = f"nvidia {version}" if version and gpu.driver == "nvidia" else gpu.driver
    return msgspec.structs.replace(gpu, name=name or gpu.name, driver=driver)


def _only_by_driver(machine: Machine, slot: str, name: str) -> Accelerator:
    usable = machine.exists("dev/nvidiactl") and machine.may_use("dev/nvidiactl") is not False
    version = driver_version(machine)
    return Accelerator(
        kind=AcceleratorKind.GPU,
        vendor="NVIDIA",
        name=name,
        status=AcceleratorStatus.USABLE if usable else AcceleratorStatus.PRESENT,
        detail=None if usable else "the driver is loaded, /dev/nvidiactl is not here or not open to this user",
        driver=f"nvidia {version}" if version else "nvidia",
        bus_id=f"pci at {slot}",
    )


def _printed(machine: Machine, names: dict[str, str]) -> list[Accelerator]:
    """From a recorded nvidia-smi, where neither the bus nor the driver's files were recorded."""
    if names:
        return []
    return [
        Accelerator(
            kind=AcceleratorKind.GPU, vendor="NVIDIA", name=name, status=AcceleratorStatus.USABLE, memory_mb=size
        )
        for name, size in parse_table(machine.recorded("nvidia-smi") or "")
    ]
