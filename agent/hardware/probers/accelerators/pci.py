"""Accelerators on PCI (and those that sit inside a processor and show themselves as PCI devices).

Read from the PCI bus; where that was not recorded, from the device links of the accel and DRM classes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from agent.hardware.probers.accelerators import nvidia, pci_ids, readiness
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorStatus

PASSED_THROUGH = ("vfio-pci", "pci-stub", "xen-pciback")
CLASSES = (("sys/class/accel", r"accel\d+"), ("sys/class/drm", r"card\d+|renderD\d+"))
"""Classes whose entries have a `device` link to the PCI device."""

DRIVER_NODES: dict[str, tuple[str, ...]] = {
    "nvidia": ("dev/nvidia0", "dev/nvidiactl"),
    "apex": ("dev/apex_*",),
    "hailo": ("dev/hailo*",),
    "hailo1x": ("dev/hailo*",),
    "devdrv_device_driver": ("dev/davinci_manager", "dev/davinci0"),
    "ascend_pci": ("dev/davinci_manager",),
}
"""Nodes of drivers that are neither in the accel nor in the DRM class."""

DISPLAY_ONLY_DRIVERS = {"nouveau": "driven by nouveau, which computes nothing: the NVIDIA driver is missing"}


class PciDevice(NamedTuple):
    """`driver_known` is True where sysfs would show a driver if there were one."""

    slot: str | None
    vendor: int
    device: int
    pci_class: int | None
    driver: str | None
    driver_known: bool
    nodes: list[str]


class PciProber:
    name = "pci accelerators"

    def probe(self, machine: Machine) -> list[Accelerator]:
        found = []
        for device in devices(machine):
            known = pci_ids.identify(device.vendor, device.device, device.pci_class)
            if known is not None:
                found.append(_accelerator(machine, device, known))
        return nvidia.with_details(machine, found)


def _accelerator(machine: Machine, device: PciDevice, known: pci_ids.Known) -> Accelerator:
    ready = readiness.judge(machine, device.driver, device.driver_known, device.nodes)
    if device.driver in PASSED_THROUGH:
        ready = readiness.Readiness(AcceleratorStatus.PRESENT, f"given to a virtual machine ({device.driver})")
    elif device.driver in DISPLAY_ONLY_DRIVERS:
        ready = readiness.Readiness(AcceleratorStatus.NO_DRIVER, DISPLAY_ONLY_DRIVERS[device.driver])
    slot = f" at {device.slot}" if device.slot else ""
    return Accelerator(
        kind=known.kind,
        vendor=known.vendor,
        name=known.name,
        status=ready.status,
        detail=ready.detail,
        driver=device.driver,
        device_node=ready.node,
        bus_id=f"pci {device.vendor:04x}:{device.device:04x}{slot}",
    )


def devices(machine: Machine) -> list[PciDevice]:
    """Every PCI device that has readable ids; each slot once."""
    places = [f"sys/bus/pci/devices/{name}" for name in machine.names("sys/bus/pci/devices")]
    for folder, pattern in CLASSES:
        places += [f"{folder}/{name}/device" for name in machine.names(folder, pattern)]
    found: dict[object, PciDevice] = {}
    for place in places:
        device = _device(machine, place)
        if device is not None:
            found.setdefault(device.slot or (device.vendor, device.device), device)
    return list(found.values())


def _device(machine: Machine, place: str) -> PciDevice | None:
    event = _uevent(machine.text(f"{place}/uevent") or "")
    ids = event.get("PCI_ID", "").partition(":")
    vendor = _hexadecimal(machine.text(f"{place}/vendor")) or _hexadecimal(ids[0])
    device = _hexadecimal(machine.text(f"{place}/device")) or _hexadecimal(ids[2])
    if vendor is None or device is None:
        return None
    pci_class = _hexadecimal(machine.text(f"{place}/class"))
    if pci_class is None:
        pci_class = _hexadecimal(event.get("PCI_CLASS"))
    driver = event.get("DRIVER") or machine.link_name(f"{place}/driver")
    slot = event.get("PCI_SLOT_NAME") or _slot_of(place)
    known = bool(event) or driver is not None
    return PciDevice(slot, vendor, device, pci_class, driver, known, _nodes(machine, place, driver))


def _nodes(machine: Machine, place: str, driver: str | None) -> list[str]:
    """Nodes that belong to this very device; render nodes before display nodes."""
    nodes: list[str] = []
    parent = re.fullmatch(r"sys/class/(accel|drm)/([^/]+)/device", place)
    if parent:
        nodes.append(f"dev/{'accel' if parent.group(1) == 'accel' else 'dri'}/{parent.group(2)}")
    nodes += [f"dev/accel/{name}" for name in machine.names(f"{place}/accel", r"accel\d+")]
    names = machine.names(f"{place}/drm", r"(card|renderD)\d+")
    nodes += [f"dev/dri/{name}" for name in sorted(names, reverse=True)]
    found = readiness.existing(machine, nodes)
    return found or readiness.existing(machine, DRIVER_NODES.get(driver or "", ()))


def _slot_of(place: str) -> str | None:
    name = place.rpartition("/")[2]
    return name if re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", name) else None


def _uevent(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _hexadecimal(text: str | None) -> int | None:
    try:
        return int(text or "", 16)
    except ValueError:
        return None
