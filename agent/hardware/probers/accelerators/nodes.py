"""Accelerators that show themselves by a device node alone: Hailo, Coral PCIe and Rockchip in a container or a
recording without the buses."""

from __future__ import annotations

from agent.hardware.probers.accelerators import readiness
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind

NODES = (
    (r"hailo\d+", AcceleratorKind.NPU, "Hailo", "Hailo", "hailo"),
    (r"apex_\d+", AcceleratorKind.TPU, "Google", "Coral Edge TPU (PCIe)", "apex"),
    (r"rknpu", AcceleratorKind.NPU, "Rockchip", "RKNPU", "RKNPU"),
)


class NodesProber:
    name = "device nodes"

    def probe(self, machine: Machine) -> list[Accelerator]:
        found = []
        for pattern, kind, vendor, name, driver in NODES:
            for entry in machine.names("dev", pattern):
                ready = readiness.judge(machine, driver, True, [f"dev/{entry}"])
                found.append(
                    Accelerator(
                        kind=kind,
                        vendor=vendor,
                        name=name,
                        status=ready.status,
                        detail=ready.detail,
                        driver=driver,
                        device_node=ready.node,
                    )
                )
        return found
