"""The device tree that the firmware handed to the kernel: what board this is, on ARM and RISC-V."""

from __future__ import annotations

from agent.hardware.sysfs import Machine

BASES = ("proc/device-tree", "sys/firmware/devicetree/base")


def base(machine: Machine) -> str | None:
    """The first place that has a model or a compatible list; None where there is no device tree."""
    for place in BASES:
        if machine.exists(f"{place}/model") or machine.exists(f"{place}/compatible"):
            return place
    return None


def model(machine: Machine) -> str | None:
    place = base(machine)
    words = machine.strings(f"{place}/model") if place else []
    return " ".join(words[0].split()) if words else None


def compatible(machine: Machine) -> list[str]:
    """Most specific first: the board, then its relatives, last the SoC."""
    place = base(machine)
    return machine.strings(f"{place}/compatible") if place else []


def node_enabled(machine: Machine, pattern: str) -> bool | None:
    """Whether a node of this name (regular expression), at the top or on a bus, is enabled; None if there is none.

    A node without `status` is enabled (Devicetree Specification 2.3.4).
    """
    place = base(machine)
    if place is None:
        return None
    found = [f"{place}/{name}" for name in machine.names(place, pattern)]
    for bus in machine.names(place, r"soc.*|bus.*"):
        found += [f"{place}/{bus}/{name}" for name in machine.names(f"{place}/{bus}", pattern)]
    if not found:
        return None
    return any((machine.text(f"{node}/status") or "okay") in ("okay", "ok") for node in found)
