"""The revision code of a Raspberry Pi: which board, which SoC, how much memory is soldered on.

Source: Raspberry Pi documentation, "Raspberry Pi revision codes": new-style codes are NOQuuuWuFMMMCCCCPPPPTTTTTTTTRRRR.
The code is in the device tree (`system/linux,revision`, big-endian) and in cpuinfo's `Revision` line, which unlike
its `Hardware` line is right.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.hardware.probers import cpuinfo
from agent.hardware.sysfs import Machine

NEW_STYLE = 1 << 23
SMALLEST_MEMORY_MB = 256
PROCESSORS = {0: "BCM2835", 1: "BCM2836", 2: "BCM2837", 3: "BCM2711", 4: "BCM2712"}
BOARD_SOCS = {
    0x0D: "BCM2837B0",  # 3B+
    0x0E: "BCM2837B0",  # 3A+
    0x10: "BCM2837B0",  # CM3+
    0x12: "BCM2710A1 (RP3A0)",  # Zero 2 W
}
"""Boards whose SoC is more exact than the processor field."""


class Revision(NamedTuple):
    """`board_type` is the number of the documentation's table, 0x11 for a 4B."""

    board_type: int
    soc: str | None
    memory_mb: int


def decode(code: int) -> Revision | None:
    """None for the old style (boards before 2014's, none of which can run an agent). Pure."""
    if not code & NEW_STYLE:
        return None
    board_type = code >> 4 & 0xFF
    soc = BOARD_SOCS.get(board_type) or PROCESSORS.get(code >> 12 & 0xF)
    return Revision(board_type, soc, SMALLEST_MEMORY_MB << (code >> 20 & 0x7))


def revision(machine: Machine) -> Revision | None:
    """None on a board that is no Raspberry Pi."""
    for base in ("proc/device-tree", "sys/firmware/devicetree/base"):
        raw = machine.raw(f"{base}/system/linux,revision")
        if raw is not None and len(raw) == 4:
            return decode(int.from_bytes(raw, "big"))
    info = cpuinfo.read(machine)
    text = info.shared.get("revision", "")
    hardware, model = info.shared.get("hardware", ""), info.shared.get("model", "")
    if not hardware.startswith("BCM") and "raspberry" not in model.lower():
        return None  # other makers print a Revision of their own meaning
    try:
        return decode(int(text, 16))
    except ValueError:
        return None


def memory_mb(machine: Machine) -> int | None:
    found = revision(machine)
    return found.memory_mb if found is not None else None
