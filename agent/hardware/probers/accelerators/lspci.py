"""A recorded lspci, with or without -nn and -k: for recordings that lack the PCI bus."""

from __future__ import annotations

import re

from agent.hardware.probers.accelerators import pci_ids
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind, AcceleratorStatus

LINE = re.compile(
    r"(?:[0-9a-f]{4}:)?(?P<slot>[0-9a-f]{2}:[0-9a-f]{2}\.\d)\s+"
    r"(?P<kind>[^:\[]+?)(?:\s*\[(?P<class>[0-9a-f]{4})\])?:\s+(?P<name>.+)"
)
VENDOR_PREFIX = re.compile(r"^(Intel Corporation|NVIDIA Corporation|Advanced Micro Devices, Inc\.\s*(AMD/ATI|AMD)?)\s*")
VENDORS_BY_WORD = (
    ("Intel", "Intel"),
    ("NVIDIA", "NVIDIA"),
    ("Advanced Micro Devices", "AMD"),
    ("Hailo", "Hailo"),
    ("Huawei", "Huawei"),
)


class LspciProber:
    name = "lspci"

    def probe(self, machine: Machine) -> list[Accelerator]:
        return parse(machine.recorded("lspci", "lspci-nn", "lspci-nnk", "lspci-k") or "")


def parse(text: str) -> list[Accelerator]:
    """Every accelerator is "present": lspci does not tell whether it may be used. Pure."""
    found = []
    for block in re.split(r"\n(?=\S)", text):
        match = LINE.match(block.strip())
        known = _known(match) if match is not None else None
        if match is None or known is None:
            continue
        driver = re.search(r"Kernel driver in use:\s*(\S+)", block)
        ids = _ids(match)
        found.append(
            Accelerator(
                kind=known.kind,
                vendor=known.vendor,
                name=known.name,
                status=AcceleratorStatus.PRESENT,
                detail="seen by lspci only",
                driver=driver.group(1) if driver else None,
                bus_id=f"pci {ids[0]:04x}:{ids[1]:04x} at {match['slot']}" if ids else f"pci at {match['slot']}",
            )
        )
    return found


def _known(match: re.Match[str]) -> pci_ids.Known | None:
    ids = _ids(match)
    if ids is None:
        return _by_words(match["kind"], match["name"])
    return pci_ids.identify(*ids, int(match["class"], 16) << 8 if match["class"] else _class_by_words(match["kind"]))


def _ids(match: re.Match[str]) -> tuple[int, int] | None:
    found = re.search(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", match["name"])
    return (int(found.group(1), 16), int(found.group(2), 16)) if found else None


def _class_by_words(kind: str) -> int | None:
    if kind.startswith(("VGA compatible", "3D controller", "Display controller")):
        return pci_ids.DISPLAY_CLASS << 16
    return pci_ids.PROCESSING_CLASS << 8 if kind.startswith("Processing accelerators") else None


def _by_words(kind: str, name: str) -> pci_ids.Known | None:
    """Without ids: the class in words, and the vendor by the words of the name."""
    plain = re.sub(r"\s*\(rev [0-9a-f]+\)", "", name).replace("[", "").replace("]", "")
    vendor = next((maker for word, maker in VENDORS_BY_WORD if word in plain), None)
    short = VENDOR_PREFIX.sub("", plain)
    if "Coral Edge TPU" in plain:
        return pci_ids.Known(AcceleratorKind.TPU, "Google", "Coral Edge TPU (PCIe)")
    if vendor is None:
        return None
    pci_class = _class_by_words(kind)
    if pci_class == pci_ids.DISPLAY_CLASS << 16:
        return pci_ids.Known(AcceleratorKind.GPU, vendor, short)
    if pci_class is not None or vendor in ("Hailo", "Huawei"):
        return pci_ids.Known(AcceleratorKind.NPU, vendor, short)
    return None
