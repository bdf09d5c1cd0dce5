"""One accelerator found in two ways is one accelerator. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from edge_contracts.capabilities import Accelerator, AcceleratorStatus

READINESS = (
    AcceleratorStatus.UNKNOWN,
    AcceleratorStatus.PRESENT,
    AcceleratorStatus.NO_DRIVER,
    AcceleratorStatus.NO_PERMISSION,
    AcceleratorStatus.USABLE,
)
"""From least to most that is known."""


def merged(findings: Iterable[list[Accelerator]]) -> list[Accelerator]:
    """In the order of finding. Two accelerators of one finding are two; what a later one found again is the same one.

    Same: one slot or one device node; or, where a finding has neither, one kind and vendor.
    """
    result: list[Accelerator] = []
    for finding in findings:
        known = len(result)
        for accelerator in finding:
            index = next((i for i in range(known) if _same(result[i], accelerator)), None)
            if index is None:
                result.append(accelerator)
            else:
                result[index] = _both(result[index], accelerator)
    return result


def _same(a: Accelerator, b: Accelerator) -> bool:
    if a.kind is not b.kind or a.vendor != b.vendor:
        return False
    if a.device_node and b.device_node and a.device_node == b.device_node:
        return True
    slots = _slot(a), _slot(b)
    if None not in slots:
        return slots[0] == slots[1]
    usb = (a.bus_id or "").startswith("usb"), (b.bus_id or "").startswith("usb")
    if any(usb):
        return False  # two sticks of one model are two
    return _anonymous(a) or _anonymous(b)


def _anonymous(accelerator: Accelerator) -> bool:
    return _slot(accelerator) is None and accelerator.device_node is None


def _slot(accelerator: Accelerator) -> str | None:
    match = re.search(r"[0-9a-f]{2}:[0-9a-f]{2}\.\d$", (accelerator.bus_id or "").lower())
    return match.group(0) if match else None


def _both(a: Accelerator, b: Accelerator) -> Accelerator:
    """The facts of the readier one; what it does not know is taken from the other."""
    better, other = (a, b) if READINESS.index(a.status) >= READINESS.index(b.status) else (b, a)
    missing = {
        field: getattr(other, field)
        for field in Accelerator.__struct_fields__
        if getattr(better, field) is None and field != "detail"
    }
    return msgspec.structs.replace(better, **missing)
