"""PCI ids of accelerators. Data, and the rule for GPUs, which are too many to list.

Sources: pci-ids.ucw.cz; Linux, drivers/accel/ivpu/ivpu_drv.h (Intel NPU), drivers/accel/amdxdna/amdxdna_pci_drv.c;
github.com/google/gasket-driver (Coral), github.com/hailo-ai/hailort-drivers, Huawei's npu-driver documentation.
Intel's GNA (class 0880) is a speech co-processor and no NPU; it is left out.
"""

from __future__ import annotations

from typing import NamedTuple

from edge_contracts.capabilities import AcceleratorKind

GPU, NPU, TPU = AcceleratorKind.GPU, AcceleratorKind.NPU, AcceleratorKind.TPU

DISPLAY_CLASS = 0x03
PROCESSING_CLASS = 0x1200


class Known(NamedTuple):
    kind: AcceleratorKind
    vendor: str
    name: str


ACCELERATORS: dict[tuple[int, int], Known] = {
    (0x8086, 0x7D1D): Known(NPU, "Intel", "Meteor Lake NPU"),
    (0x8086, 0xAD1D): Known(NPU, "Intel", "Arrow Lake NPU"),
    (0x8086, 0x643E): Known(NPU, "Intel", "Lunar Lake NPU"),
    (0x8086, 0xB03E): Known(NPU, "Intel", "Panther Lake NPU"),
    (0x8086, 0x6240): Known(AcceleratorKind.VPU, "Intel", "Keem Bay VPU"),
    (0x1022, 0x1502): Known(NPU, "AMD", "XDNA NPU (Phoenix)"),
    (0x1022, 0x17F0): Known(NPU, "AMD", "XDNA NPU (Strix)"),
    (0x1AC1, 0x089A): Known(TPU, "Google", "Coral Edge TPU (PCIe)"),
    (0x1E60, 0x2864): Known(NPU, "Hailo", "Hailo-8"),
    (0x1E60, 0x45C4): Known(NPU, "Hailo", "Hailo-10H"),
    (0x19E5, 0xD100): Known(NPU, "Huawei", "Ascend 310"),
    (0x19E5, 0xD105): Known(NPU, "Huawei", "Ascend 310B"),
    (0x19E5, 0xD500): Known(NPU, "Huawei", "Ascend 310P"),
    (0x19E5, 0xD801): Known(NPU, "Huawei", "Ascend 910"),
    (0x19E5, 0xD802): Known(NPU, "Huawei", "Ascend 910B"),
    (0x1F1D, 0x0100): Known(NPU, "MemryX", "MX3"),
}

INTEL_GPUS = {
    0x5A84: "HD Graphics 505 (Apollo Lake)",
    0x5A85: "HD Graphics 500 (Apollo Lake)",
    0x3184: "UHD Graphics 605 (Gemini Lake)",
    0x3185: "UHD Graphics 600 (Gemini Lake)",
    0x4E55: "UHD Graphics (Jasper Lake)",
    0x4E61: "UHD Graphics (Jasper Lake)",
    0x4E71: "UHD Graphics (Jasper Lake)",
    0x46D0: "UHD Graphics (Alder Lake-N)",
    0x46D1: "UHD Graphics (Alder Lake-N)",
    0x46D2: "UHD Graphics (Alder Lake-N)",
    0x1916: "HD Graphics 520 (Skylake)",
    0x5916: "HD Graphics 620 (Kaby Lake)",
    0x5917: "UHD Graphics 620 (Kaby Lake-R)",
    0x3EA5: "Iris Plus Graphics 655 (Coffee Lake)",
    0x9BCA: "UHD Graphics (Comet Lake)",
    0x9B41: "UHD Graphics (Comet Lake)",
    0x8A52: "Iris Plus Graphics G7 (Ice Lake)",
    0x9A49: "Iris Xe Graphics (Tiger Lake)",
    0x9A40: "Iris Xe Graphics (Tiger Lake)",
    0x9A78: "UHD Graphics (Tiger Lake)",
    0x4680: "UHD Graphics 770 (Alder Lake-S)",
    0x4692: "UHD Graphics 730 (Alder Lake-S)",
    0x46A6: "Iris Xe Graphics (Alder Lake-P)",
    0x46A8: "Iris Xe Graphics (Alder Lake-U)",
    0xA780: "UHD Graphics 770 (Raptor Lake-S)",
    0xA7A0: "Iris Xe Graphics (Raptor Lake-P)",
    0xA7A1: "Iris Xe Graphics (Raptor Lake-U)",
    0x7D55: "Arc Graphics (Meteor Lake-P)",
    0x7D45: "Graphics (Meteor Lake-U)",
    0x7D51: "Arc Graphics (Arrow Lake-H)",
    0x7D67: "Graphics (Arrow Lake-S)",
    0x64A0: "Arc Graphics (Lunar Lake)",
    0xB080: "Arc Graphics (Panther Lake)",
    0x5690: "Arc A770M",
    0x56A0: "Arc A770",
    0x56A1: "Arc A750",
    0x56A5: "Arc A380",
    0x56A6: "Arc A310",
    0xE20B: "Arc B580",
}

GPU_VENDORS = {0x10DE: "NVIDIA", 0x8086: "Intel", 0x1002: "AMD"}
"""Display controllers of other vendors (emulated ones, server consoles) compute nothing."""


def identify(vendor: int, device: int, pci_class: int | None) -> Known | None:
    """None for what is no accelerator. `pci_class` is the 24-bit class of sysfs, e.g. 0x030000. Pure."""
    known = ACCELERATORS.get((vendor, device))
    if known is not None:
        return known
    if pci_class is None:
        return None
    if pci_class >> 16 == DISPLAY_CLASS and vendor in GPU_VENDORS:
        maker = GPU_VENDORS[vendor]
        name = INTEL_GPUS.get(device) if maker == "Intel" else None
        return Known(GPU, maker, name or f"GPU {vendor:04x}:{device:04x}")
    if pci_class >> 8 == PROCESSING_CLASS and vendor == 0x8086:
        return Known(NPU, "Intel", f"NPU {vendor:04x}:{device:04x}")
    return None
