"""Huawei Ascend: chips as `npu-smi info` prints them, else by their device nodes.

The table's columns move from version to version, so a line is split at its bars, and the two lines of a chip are told
apart by their order: the first has health and temperature, the second the bus id and the memory ("used / total").
Power may be "-"; memory may be in the HBM column with the other one at 0 / 0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from agent.hardware import figures
from agent.hardware.probers.accelerators import readiness
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind, AcceleratorStatus

TOOL_TIMEOUT_S = 0.6


class Chip(NamedTuple):
    """One chip; a figure that the tool does not know is None."""

    npu: int
    name: str
    health: str
    power_w: float | None
    temp_c: float | None
    bus: str | None
    memory_used_mb: int | None
    memory_total_mb: int | None


class AscendProber:
    name = "ascend npus"

    def probe(self, machine: Machine) -> list[Accelerator]:
        nodes = [f"dev/{name}" for name in machine.names("dev", r"davinci\d+")]
        if machine.live and not nodes and not machine.exists("dev/davinci_manager"):
            return []
        printed = machine.output(("npu-smi", "info"), ("npu-smi-info", "npu-smi"), TOOL_TIMEOUT_S)
        chips = parse_info(printed or "")
        if chips:
            return [_of_chip(machine, chip, nodes[i] if i < len(nodes) else None) for i, chip in enumerate(chips)]
        return [_of_node(machine, node) for node in nodes]


def parse_info(text: str) -> list[Chip]:
    """Chips in the order of the table. Pure."""
    chips: list[Chip] = []
    first: tuple[int, str, str, str] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        names = cells[0].split()
        if not line.strip().startswith("|") or len(cells) != 3 or not names or figures.whole(names[0]) is None:
            continue
        if first is not None and "/" in cells[2]:
            chips.append(_chip(first, cells[1], cells[2]))
            first = None
        else:
            first = (figures.whole(names[0]) or 0, " ".join(names[1:]), cells[1], cells[2])
    return chips


def _chip(first: tuple[int, str, str, str], bus: str, usage: str) -> Chip:
    npu, name, health, measured = first
    power, temperature, *_ = [*measured.split(), "", ""]
    used, total = _memory(usage)
    return Chip(
        npu=npu,
        name=name,
        health=health,
        power_w=figures.real(power),
        temp_c=figures.real(temperature),
        bus=bus if re.fullmatch(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d", bus) else None,
        memory_used_mb=used,
        memory_total_mb=total,
    )


def _memory(usage: str) -> tuple[int | None, int | None]:
    """(used, total) of the largest "used / total" pair: the chip's own or its HBM, whichever it has."""
    pairs = [(int(used), int(total)) for used, total in re.findall(r"(\d{1,9})\s*/\s*(\d{1,9})", usage)]
    real = [pair for pair in pairs if pair[1] > 0]
    return max(real, key=lambda pair: pair[1]) if real else (None, None)


def _of_chip(machine: Machine, chip: Chip, node: str | None) -> Accelerator:
    ready = readiness.judge(machine, "davinci", True, [node] if node else [])
    denied = ready.status is AcceleratorStatus.NO_PERMISSION
    detail = ready.detail if denied else None if chip.health == "OK" else f"npu-smi says health {chip.health}"
    return Accelerator(
        kind=AcceleratorKind.NPU,
        vendor="Huawei",
        name=chip.name,
        status=ready.status if denied else AcceleratorStatus.USABLE,  # npu-smi reached the chip through its driver
        detail=detail,
        driver="davinci",
        device_node=ready.node,
        bus_id=f"pci at {chip.bus.lower()}" if chip.bus else None,
        memory_mb=chip.memory_total_mb,
        memory_used_mb=chip.memory_used_mb,
        temp_c=chip.temp_c,
        power_w=chip.power_w,
        health=chip.health,
    )


def _of_node(machine: Machine, node: str) -> Accelerator:
    ready = readiness.judge(machine, "davinci", True, [node])
    return Accelerator(
        kind=AcceleratorKind.NPU,
        vendor="Huawei",
        name="Ascend",
        status=ready.status,
        detail=ready.detail or "npu-smi did not answer, so its model is not known",
        driver="davinci",
        device_node=ready.node,
    )
