"""Names of ARM cores by implementer and part, the two identifying fields of MIDR_EL1. Data, and one look-up.

Source: util-linux, sys-utils/lscpu-arm.c (the table that lscpu prints from), and Arm's technical reference manuals.
Arm's own names stand alone. The names of other implementers are customary rather than published beside the number, so
the number is kept with them. A part that is not in the table is shown as its number.
"""

from __future__ import annotations

ARM_LTD = "0x41"

ARM_PARTS = {
    "0x926": "ARM926",
    "0xb36": "ARM1136",
    "0xb56": "ARM1156",
    "0xb76": "ARM1176",
    "0xb02": "ARM11 MPCore",
    "0xc05": "Cortex-A5",
    "0xc07": "Cortex-A7",
    "0xc08": "Cortex-A8",
    "0xc09": "Cortex-A9",
    "0xc0d": "Cortex-A17",
    "0xc0e": "Cortex-A17",
    "0xc0f": "Cortex-A15",
    "0xd01": "Cortex-A32",
    "0xd03": "Cortex-A53",
    "0xd04": "Cortex-A35",
    "0xd05": "Cortex-A55",
    "0xd06": "Cortex-A65",
    "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72",
    "0xd09": "Cortex-A73",
    "0xd0a": "Cortex-A75",
    "0xd0b": "Cortex-A76",
    "0xd0c": "Neoverse-N1",
    "0xd0d": "Cortex-A77",
    "0xd0e": "Cortex-A76AE",
    "0xd40": "Neoverse-V1",
    "0xd41": "Cortex-A78",
    "0xd42": "Cortex-A78AE",
    "0xd43": "Cortex-A65AE",
    "0xd44": "Cortex-X1",
    "0xd46": "Cortex-A510",
    "0xd47": "Cortex-A710",
    "0xd48": "Cortex-X2",
    "0xd49": "Neoverse-N2",
    "0xd4a": "Neoverse-E1",
    "0xd4b": "Cortex-A78C",
    "0xd4c": "Cortex-X1C",
    "0xd4d": "Cortex-A715",
    "0xd4e": "Cortex-X3",
    "0xd4f": "Neoverse-V2",
    "0xd80": "Cortex-A520",
    "0xd81": "Cortex-A720",
    "0xd82": "Cortex-X4",
    "0xd83": "Neoverse-V3AE",
    "0xd84": "Neoverse-V3",
    "0xd85": "Cortex-X925",
    "0xd87": "Cortex-A725",
    "0xd88": "Cortex-A520AE",
    "0xd89": "Cortex-A720AE",
    "0xd8e": "Neoverse-N3",
}

OTHER_PARTS = {
    "0x42/0x516": "Broadcom ThunderX2",
    "0x43/0x0a1": "Cavium ThunderX",
    "0x43/0x0af": "Cavium ThunderX2",
    "0x46/0x001": "Fujitsu A64FX",
    "0x48/0xd01": "HiSilicon TaiShan v110",
    "0x48/0xd02": "HiSilicon TaiShan v120",
    "0x48/0xd40": "HiSilicon Cortex-A76",
    "0x4e/0x000": "NVIDIA Denver",
    "0x4e/0x003": "NVIDIA Denver 2",
    "0x4e/0x004": "NVIDIA Carmel",
    "0x50/0x000": "APM X-Gene",
    "0x51/0x001": "Qualcomm Oryon",
    "0x51/0x201": "Qualcomm Kryo",
    "0x51/0x205": "Qualcomm Kryo",
    "0x51/0x211": "Qualcomm Kryo",
    "0x51/0x800": "Qualcomm Kryo 2xx Gold",
    "0x51/0x801": "Qualcomm Kryo 2xx Silver",
    "0x51/0x802": "Qualcomm Kryo 3xx Gold",
    "0x51/0x803": "Qualcomm Kryo 3xx Silver",
    "0x51/0x804": "Qualcomm Kryo 4xx Gold",
    "0x51/0x805": "Qualcomm Kryo 4xx Silver",
    "0x53/0x001": "Samsung Exynos M1",
    "0xc0/0xac3": "Ampere-1",
    "0xc0/0xac4": "Ampere-1a",
}

MULTITHREADED_PARTS = frozenset({"0x41/0xd06", "0x41/0xd43", "0x41/0xd4a", "0x42/0x516", "0x43/0x0af"})
"""ARM cores that may run more than one thread; every other one runs exactly one."""


def core_name(part: str | None) -> str | None:
    """The name for "0x41/0xd08"; the number itself for a part that nobody here has heard of; None for None."""
    if part is None:
        return None
    implementer, _, number = part.partition("/")
    if implementer == ARM_LTD:
        return ARM_PARTS.get(number, part)
    name = OTHER_PARTS.get(part)
    return f"{name} ({part})" if name else part


def part_of_midr(midr: int) -> str:
    """Implementer is bits 31-24 and part bits 15-4 of MIDR_EL1 (Arm Architecture Reference Manual)."""
    return f"0x{midr >> 24 & 0xFF:02x}/0x{midr >> 4 & 0xFFF:03x}"


def part_of_name(name: str) -> str | None:
    """The number of one of Arm's own names, for recordings that have only lscpu's name."""
    wanted = name.strip().lower()
    for number, known in ARM_PARTS.items():
        if known.lower() == wanted:
            return f"{ARM_LTD}/{number}"
    return None
