"""How far an accelerator is ready, decided from three facts: a driver, a device node, the right to use it. Pure core.

    driver   node      may use   status          the way out
    none     -         -         no-driver       install or load it
    bound    absent    -         present         the node is not here: usually a container without --device
    bound    there     no        no-permission   a group or a udev rule
    bound    there     yes       usable
    unknown  there     yes       usable          a node is only there when a driver made it
    unknown  unknown   -         present

In a recorded tree permissions mean nothing, so a node that is there counts as usable.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import AcceleratorStatus


class Readiness(NamedTuple):
    status: AcceleratorStatus
    detail: str | None = None
    node: str | None = None
    """The device node as an absolute path, where one was found."""


def judge(machine: Machine, driver: str | None, driver_known: bool, nodes: list[str]) -> Readiness:
    """`nodes` are existing paths relative to root, best first; `driver_known` is False where sysfs was not there."""
    if driver is None and driver_known and not nodes:
        return Readiness(AcceleratorStatus.NO_DRIVER, "no kernel driver is bound to it")
    if not nodes:
        if driver is None:
            return Readiness(AcceleratorStatus.PRESENT, "whether a driver is loaded is not known")
        return Readiness(AcceleratorStatus.PRESENT, f"driver {driver} is loaded, its device node is not here")
    node = f"/{nodes[0]}"
    if machine.may_use(nodes[0]) is False:
        return Readiness(AcceleratorStatus.NO_PERMISSION, permission_hint(node), node)
    return Readiness(AcceleratorStatus.USABLE, None, node)


def permission_hint(node: str) -> str:
    """Which group or rule opens a node on the usual distributions."""
    if node.startswith(("/dev/dri/", "/dev/accel/")):
        return f"{node} is not open to this user: add it to the group render"
    if node.startswith("/dev/bus/usb/"):
        return f"{node} is not open to this user: a udev rule for this device is missing"
    if node.startswith("/dev/davinci"):
        return f"{node} is not open to this user: add it to the group HwHiAiUser"
    if node.startswith(("/dev/nvhost", "/dev/nvmap", "/dev/nvgpu")):
        return f"{node} is not open to this user: add it to the group video"
    if node.startswith("/dev/apex"):
        return f"{node} is not open to this user: add it to the group apex"
    return f"{node} is not open to this user"


def existing(machine: Machine, patterns: tuple[str, ...] | list[str]) -> list[str]:
    """Device nodes that are there; the last component may end in * ("dev/dri/renderD*")."""
    found = []
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        if name.endswith("*"):
            found += [f"{folder}/{entry}" for entry in machine.names(folder) if entry.startswith(name[:-1])]
        elif machine.exists(pattern):
            found.append(pattern)
    return found
