"""Accelerators on USB: Coral and Movidius sticks, which change their ids once their firmware runs."""

from __future__ import annotations

import re
from typing import NamedTuple

from agent.hardware.probers.accelerators import readiness
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind, AcceleratorStatus

USB_DIR = "sys/bus/usb/devices"
TPU, VPU = AcceleratorKind.TPU, AcceleratorKind.VPU


class Stick(NamedTuple):
    """`note` says what this id means for the state of the same stick."""

    kind: AcceleratorKind
    vendor: str
    name: str
    note: str


STICKS: dict[tuple[int, int], Stick] = {
    (0x1A6E, 0x089A): Stick(TPU, "Google", "Coral USB Accelerator", "not yet initialised: becomes 18d1:9302 in use"),
    (0x18D1, 0x9302): Stick(TPU, "Google", "Coral USB Accelerator", "initialised"),
    (0x03E7, 0x2485): Stick(VPU, "Intel", "Movidius Myriad X", "not booted: becomes 03e7:f63b when opened"),
    (0x03E7, 0x2150): Stick(VPU, "Intel", "Movidius Myriad 2", "not booted: becomes 03e7:f63b when opened"),
    (0x03E7, 0xF63B): Stick(VPU, "Intel", "Movidius Myriad", "booted"),
}
"""Sources: google-coral/edgetpu issues 536 and 799; openvinotoolkit/openvino issues 1017 and 18321."""


class UsbProber:
    """USB accelerators need no kernel driver, only the right to open their node under /dev/bus/usb."""

    name = "usb accelerators"

    def probe(self, machine: Machine) -> list[Accelerator]:
        found = []
        for name in machine.names(USB_DIR):
            here = f"{USB_DIR}/{name}"
            vendor, product = _hexadecimal(machine, f"{here}/idVendor"), _hexadecimal(machine, f"{here}/idProduct")
            if vendor is None or product is None:
                continue
            stick = STICKS.get((vendor, product))
            if stick is not None:
                found.append(_accelerator(machine, here, (vendor, product), stick))
        return found or parse_lsusb(machine.recorded("lsusb") or "")


def parse_lsusb(text: str) -> list[Accelerator]:
    """Lines "Bus 001 Device 004: ID 03e7:2485 Intel Movidius MyriadX", the name may be missing. Pure."""
    found = []
    for vendor, product in re.findall(r"\bID ([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\b", text):
        stick = STICKS.get((int(vendor, 16), int(product, 16)))
        if stick is not None:
            found.append(_of(stick, (int(vendor, 16), int(product, 16)), AcceleratorStatus.PRESENT, stick.note, None))
    return found


def _accelerator(machine: Machine, place: str, ids: tuple[int, int], stick: Stick) -> Accelerator:
    bus, number = machine.integer(f"{place}/busnum"), machine.integer(f"{place}/devnum")
    nodes = []
    if bus is not None and number is not None:
        nodes = readiness.existing(machine, [f"dev/bus/usb/{bus:03d}/{number:03d}"])
    ready = readiness.judge(machine, None, False, nodes)
    detail = stick.note if ready.status is AcceleratorStatus.USABLE else f"{stick.note}; {ready.detail}"
    if not nodes:
        detail = f"{stick.note}; its node under /dev/bus/usb is not here"
    return _of(stick, ids, ready.status, detail, ready.node)


def _of(
    stick: Stick, ids: tuple[int, int], status: AcceleratorStatus, detail: str | None, node: str | None
) -> Accelerator:
    return Accelerator(
        kind=stick.kind,
        vendor=stick.vendor,
        name=stick.name,
        status=status,
        detail=detail,
        device_node=node,
        bus_id=f"usb {ids[0]:04x}:{ids[1]:04x}",
    )


def _hexadecimal(machine: Machine, path: str) -> int | None:
    try:
        return int(machine.text(path) or "", 16)
    except ValueError:
        return None
