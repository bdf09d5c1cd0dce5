"""GPUs, NPUs, VPUs and TPUs by every way of being found, in every state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.hardware.probe import probe
from agent.hardware.probers.accelerators import readiness
from agent.hardware.probers.accelerators.lspci import parse as parse_lspci
from agent.hardware.probers.accelerators.nvidia import parse_table
from agent.hardware.probers.accelerators.usb import parse_lsusb
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind, AcceleratorStatus
from tests.agent.hardware.recording import record

PCI = "sys/bus/pci/devices"


@dataclass(frozen=True)
class LockedMachine(Machine):
    """A machine on which no device node may be used: file modes mean nothing to a test that runs as root."""

    def may_use(self, path: str) -> bool | None:
        return False


def accelerators(root: Path, files: Mapping[str, str | bytes]) -> list[Accelerator]:
    return probe(record(root, files)).accelerators


def only(root: Path, files: Mapping[str, str | bytes]) -> Accelerator:
    found = accelerators(root, files)
    assert len(found) == 1, found
    return found[0]


def pci(slot: str, ids: str, pci_class: str, driver: str | None = None) -> dict[str, str]:
    vendor, device = ids.split(":")
    event = f"PCI_CLASS={pci_class}\nPCI_ID={ids.upper()}\nPCI_SLOT_NAME={slot}\n"
    return {
        f"{PCI}/{slot}/vendor": f"0x{vendor}\n",
        f"{PCI}/{slot}/device": f"0x{device}\n",
        f"{PCI}/{slot}/class": f"0x{pci_class:0>6}\n",
        f"{PCI}/{slot}/uevent": (f"DRIVER={driver}\n" if driver else "") + event,
    }


def test_an_intel_gpu_with_driver_and_node_is_usable(tmp_path: Path) -> None:
    slot = "0000:00:02.0"
    files = pci(slot, "8086:46d1", "30000", "i915")
    files |= {
        f"{PCI}/{slot}/drm/card0/dev": "",
        f"{PCI}/{slot}/drm/renderD128/dev": "",
        "dev/dri/card0": "",
        "dev/dri/renderD128": "",
    }
    found = only(tmp_path, files)
    assert (found.kind, found.vendor, found.status) == (AcceleratorKind.GPU, "Intel", AcceleratorStatus.USABLE)
    assert (found.name, found.device_node) == ("UHD Graphics (Alder Lake-N)", "/dev/dri/renderD128")


def test_a_gpu_in_a_container_without_its_node_is_present(tmp_path: Path) -> None:
    found = only(tmp_path, pci("0000:00:02.0", "8086:46d1", "30000", "i915"))
    assert found.status is AcceleratorStatus.PRESENT
    assert "device node is not here" in (found.detail or "")


def test_a_panther_lake_npu_without_a_driver_is_no_driver(tmp_path: Path) -> None:
    found = only(tmp_path, pci("0000:00:0b.0", "8086:b03e", "120000"))
    assert (found.kind, found.name, found.status) == (
        AcceleratorKind.NPU,
        "Panther Lake NPU",
        AcceleratorStatus.NO_DRIVER,
    )


def test_an_npu_that_this_user_may_not_open_is_no_permission(tmp_path: Path) -> None:
    slot = "0000:00:0b.0"
    files = {
        **pci(slot, "8086:7d1d", "120000", "intel_vpu"),
        f"{PCI}/{slot}/accel/accel0/dev": "",
        "dev/accel/accel0": "",
    }
    record(tmp_path, files)
    found = probe(LockedMachine(root=tmp_path, live=False)).accelerators[0]
    assert found.status is AcceleratorStatus.NO_PERMISSION
    assert "group render" in (found.detail or "")


def test_an_amd_npu_is_no_intel_npu_though_it_owns_accel0(tmp_path: Path) -> None:
    event = "DRIVER=amdxdna\nPCI_CLASS=118000\nPCI_ID=1022:1502\nPCI_SLOT_NAME=0000:c5:00.1\n"
    files = {"sys/class/accel/accel0/device/uevent": event, "dev/accel/accel0": ""}
    found = only(tmp_path, files)
    assert (found.vendor, found.driver, found.status) == ("AMD", "amdxdna", AcceleratorStatus.USABLE)


def test_a_gna_is_no_npu(tmp_path: Path) -> None:
    assert accelerators(tmp_path, pci("0000:00:08.0", "8086:a74f", "88000")) == []


def test_a_virtual_display_computes_nothing(tmp_path: Path) -> None:
    files = {
        **pci("0000:00:01.0", "1234:1111", "30000", "bochs-drm"),
        **pci("0000:00:02.0", "1af4:1050", "30000", "virtio-pci"),
    }
    assert accelerators(tmp_path, files) == []


def test_nouveau_is_no_driver_for_computing(tmp_path: Path) -> None:
    found = only(tmp_path, pci("0000:01:00.0", "10de:2204", "30000", "nouveau"))
    assert found.status is AcceleratorStatus.NO_DRIVER
    assert "NVIDIA driver" in (found.detail or "")


def test_a_gpu_given_to_a_virtual_machine_is_only_present(tmp_path: Path) -> None:
    found = only(tmp_path, {**pci("0000:01:00.0", "10de:2204", "30000", "vfio-pci"), "dev/nvidia0": ""})
    assert (found.status, found.detail) == (AcceleratorStatus.PRESENT, "given to a virtual machine (vfio-pci)")


def test_an_nvidia_gpu_is_named_by_its_driver(tmp_path: Path) -> None:
    files = pci("0000:01:00.0", "10de:2204", "30000", "nvidia") | {
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA GeForce RTX 3090\nIRQ: 1\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n",
        "dev/nvidia0": "",
    }
    found = only(tmp_path, files)
    assert (found.name, found.driver, found.status) == (
        "NVIDIA GeForce RTX 3090",
        "nvidia 550.54.15",
        AcceleratorStatus.USABLE,
    )


def test_an_nvidia_gpu_of_a_container_without_the_bus_is_found(tmp_path: Path) -> None:
    files = {"proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA A2\n", "dev/nvidiactl": ""}
    found = only(tmp_path, files)
    assert (found.name, found.status) == ("NVIDIA A2", AcceleratorStatus.USABLE)


def test_the_driver_link_of_a_device_is_enough(tmp_path: Path) -> None:
    slot = "0000:03:00.0"
    files = {
        f"{PCI}/{slot}/vendor": "0x1e60",
        f"{PCI}/{slot}/device": "0x2864",
        f"{PCI}/{slot}/class": "0x120000",
        "dev/hailo0": "",
    }
    record(tmp_path, files)
    (tmp_path / PCI / slot / "driver").symlink_to("../../../bus/pci/drivers/hailo")
    found = only(tmp_path, files)
    assert (found.name, found.driver, found.device_node) == ("Hailo-8", "hailo", "/dev/hailo0")
    assert found.status is AcceleratorStatus.USABLE


def test_a_coral_on_pcie_is_one_tpu(tmp_path: Path) -> None:
    found = only(tmp_path, {**pci("0000:01:00.0", "1ac1:089a", "ff0000", "apex"), "dev/apex_0": ""})
    assert (found.kind, found.vendor, found.status) == (AcceleratorKind.TPU, "Google", AcceleratorStatus.USABLE)


def test_a_hailo_node_without_a_bus_is_found(tmp_path: Path) -> None:
    assert only(tmp_path, {"dev/hailo0": ""}).vendor == "Hailo"


def usb(port: str, vendor: str, product: str, bus: int = 1, device: int = 4) -> dict[str, str]:
    here = f"sys/bus/usb/devices/{port}"
    return {
        f"{here}/idVendor": vendor,
        f"{here}/idProduct": product,
        f"{here}/busnum": str(bus),
        f"{here}/devnum": str(device),
    }


@pytest.mark.parametrize(
    ("ids", "kind", "note"),
    [
        (("1a6e", "089a"), AcceleratorKind.TPU, "not yet initialised"),
        (("18d1", "9302"), AcceleratorKind.TPU, "initialised"),
        (("03e7", "2485"), AcceleratorKind.VPU, "not booted"),
        (("03e7", "f63b"), AcceleratorKind.VPU, "booted"),
    ],
)
def test_a_usb_stick_under_both_its_ids(tmp_path: Path, ids: tuple[str, str], kind: AcceleratorKind, note: str) -> None:
    found = only(tmp_path, {**usb("1-2", *ids), "dev/bus/usb/001/004": ""})
    assert (found.kind, found.status) == (kind, AcceleratorStatus.USABLE)
    assert (found.detail or "").startswith(note)


def test_a_usb_stick_without_a_udev_rule_is_no_permission(tmp_path: Path) -> None:
    record(tmp_path, {**usb("1-2", "03e7", "2485"), "dev/bus/usb/001/004": ""})
    found = probe(LockedMachine(root=tmp_path, live=False)).accelerators[0]
    assert found.status is AcceleratorStatus.NO_PERMISSION
    assert "udev rule" in (found.detail or "")


def test_two_equal_sticks_are_two(tmp_path: Path) -> None:
    files = {
        **usb("1-2", "1a6e", "089a", 1, 4),
        **usb("1-3", "1a6e", "089a", 1, 5),
        "dev/bus/usb/001/004": "",
        "dev/bus/usb/001/005": "",
    }
    assert len(accelerators(tmp_path, files)) == 2


def test_other_usb_devices_are_no_accelerators(tmp_path: Path) -> None:
    assert accelerators(tmp_path, usb("1-1", "1d6b", "0002")) == []


def test_lsusb_finds_sticks_with_and_without_a_name() -> None:
    text = (
        "Bus 002 Device 001: ID 1d6b:0003 Linux Foundation 3.0 root hub\n"
        "Bus 001 Device 005: ID 03E7:2485 Intel Movidius MyriadX\n"
        "Bus 001 Device 002: ID 1a6e:089a\n"
    )
    assert [(found.kind, found.bus_id) for found in parse_lsusb(text)] == [
        (AcceleratorKind.VPU, "usb 03e7:2485"),
        (AcceleratorKind.TPU, "usb 1a6e:089a"),
    ]


def test_lspci_is_read_with_and_without_ids() -> None:
    text = (
        "00:02.0 VGA compatible controller [0300]: Intel Corporation Raptor Lake-P [Iris Xe] [8086:a7a0] (rev 04)\n"
        "\tKernel driver in use: i915\n"
        "00:08.0 System peripheral [0880]: Intel Corporation GNA Scoring Accelerator module [8086:a74f] (rev 01)\n"
        "00:0b.0 Processing accelerators: Intel Corporation Meteor Lake NPU (rev 04)\n"
        "0000:03:00.0 System peripheral: Global Unichip Corp. Coral Edge TPU\n"
    )
    assert [(found.kind, found.name, found.driver) for found in parse_lspci(text)] == [
        (AcceleratorKind.GPU, "Iris Xe Graphics (Raptor Lake-P)", "i915"),
        (AcceleratorKind.NPU, "Meteor Lake NPU", None),
        (AcceleratorKind.TPU, "Coral Edge TPU (PCIe)", None),
    ]


def test_a_recorded_nvidia_smi_is_read_as_table_and_as_csv() -> None:
    table = (
        "|   0  NVIDIA A2                      On  | 00000000:01:00.0 Off |\n"
        "| 0%   39C    P8     5W /  60W |      3MiB / 15356MiB |\n"
    )
    assert parse_table(table) == [("NVIDIA A2", 15356)]
    assert parse_table("NVIDIA A2, 15356 MiB\n") == [("NVIDIA A2", 15356)]


RK3588 = {"proc/device-tree/model": b"Board\0", "proc/device-tree/compatible": b"maker,board\0rockchip,rk3588\0"}


def test_a_rockchip_npu_with_its_vendor_driver_is_usable(tmp_path: Path) -> None:
    files = RK3588 | {
        "sys/class/drm/card1/device/uevent": "DRIVER=RKNPU\n",
        "sys/class/drm/renderD129/device/uevent": "DRIVER=RKNPU\n",
        "dev/dri/renderD129": "",
    }
    npu = next(found for found in accelerators(tmp_path, files) if found.kind is AcceleratorKind.NPU)
    assert (npu.status, npu.device_node) == (AcceleratorStatus.USABLE, "/dev/dri/renderD129")


def test_a_unit_that_the_device_tree_switches_off_says_so(tmp_path: Path) -> None:
    files = RK3588 | {"proc/device-tree/npu@fdab0000/status": b"disabled\0"}
    npu = next(found for found in accelerators(tmp_path, files) if found.kind is AcceleratorKind.NPU)
    assert (npu.status, npu.detail) == (AcceleratorStatus.PRESENT, "part of the SoC; switched off in the device tree")


def test_a_live_soc_without_any_of_its_drivers_is_no_driver(tmp_path: Path) -> None:
    record(tmp_path, RK3588)
    found = probe(Machine(root=tmp_path, live=True, run=None)).accelerators
    assert {accelerator.status for accelerator in found} == {AcceleratorStatus.NO_DRIVER}


def test_a_jetson_gpu_and_its_deep_learning_units_by_their_nodes(tmp_path: Path) -> None:
    files = {
        "proc/device-tree/model": b"NVIDIA Jetson Xavier NX\0",
        "proc/device-tree/compatible": b"nvidia,p3509-0000+p3668-0000\0nvidia,tegra194\0",
        "sys/module/nvgpu/version": "",
        "dev/nvhost-gpu": "",
        "dev/nvhost-nvdla0": "",
        "dev/nvhost-nvdla1": "",
    }
    found = accelerators(tmp_path, files)
    assert [(a.kind, a.name, a.status) for a in found] == [
        (AcceleratorKind.GPU, "Volta (gv11b)", AcceleratorStatus.USABLE),
        (AcceleratorKind.NPU, "NVDLA 0", AcceleratorStatus.USABLE),
        (AcceleratorKind.NPU, "NVDLA 1", AcceleratorStatus.USABLE),
    ]
    assert found[0].unified_memory is True


@pytest.mark.parametrize(
    ("driver", "known", "nodes", "status"),
    [
        (None, True, [], AcceleratorStatus.NO_DRIVER),
        (None, False, [], AcceleratorStatus.PRESENT),
        ("x", True, [], AcceleratorStatus.PRESENT),
        ("x", True, ["dev/x"], AcceleratorStatus.USABLE),
        (None, False, ["dev/x"], AcceleratorStatus.USABLE),
    ],
)
def test_readiness_is_a_table(
    tmp_path: Path, driver: str | None, known: bool, nodes: list[str], status: AcceleratorStatus
) -> None:
    machine = Machine(root=tmp_path, live=False)
    assert readiness.judge(machine, driver, known, nodes).status is status
