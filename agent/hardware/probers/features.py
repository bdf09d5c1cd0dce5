"""Instruction-set features: one name for each, whatever the kernel calls it on this architecture.

True: every online CPU has it and the kernel offers it to this userland. False: the kernel's list is there and has it
not. None: no list. Only the names of the machine's own architecture appear.
"""

from __future__ import annotations

from agent.hardware.probers import cpuinfo, lscpu
from agent.hardware.sysfs import Machine

ARM64_FEATURES: dict[str, tuple[str, ...]] = {
    "neon": ("asimd",),
    "aes": ("aes",),
    "sha1": ("sha1",),
    "sha2": ("sha2",),
    "crc32": ("crc32",),
    "lse_atomics": ("atomics",),
    "fp16": ("fphp", "asimdhp"),
    "fp16_fml": ("asimdfhm",),
    "dotprod": ("asimddp",),
    "i8mm": ("i8mm",),
    "bf16": ("bf16",),
    "sve": ("sve",),
    "sve2": ("sve2",),
    "sme": ("sme",),
    "sme2": ("sme2",),
}
ARM32_FEATURES: dict[str, tuple[str, ...]] = {
    "neon": ("neon",),
    "vfpv3": ("vfpv3",),
    "vfpv4": ("vfpv4",),
    "idiv": ("idiva", "idivt"),
    "aes": ("aes",),
    "sha1": ("sha1",),
    "sha2": ("sha2",),
    "crc32": ("crc32",),
    "fp16": ("fphp", "asimdhp"),
    "fp16_fml": ("asimdfhm",),
    "dotprod": ("asimddp",),
    "i8mm": ("i8mm",),
    "bf16": ("asimdbf16",),
}
X86_FEATURES: dict[str, tuple[str, ...]] = {
    "sse2": ("sse2",),
    "sse4_1": ("sse4_1",),
    "sse4_2": ("sse4_2",),
    "aes": ("aes",),
    "avx": ("avx",),
    "avx2": ("avx2",),
    "fma": ("fma",),
    "f16c": ("f16c",),
    "bmi2": ("bmi2",),
    "avx_vnni": ("avx_vnni",),
    "avx512f": ("avx512f",),
    "avx512bw": ("avx512bw",),
    "avx512vl": ("avx512vl",),
    "avx512_vnni": ("avx512_vnni",),
    "avx512_bf16": ("avx512_bf16",),
    "avx512_fp16": ("avx512_fp16",),
    "amx_tile": ("amx_tile",),
    "amx_int8": ("amx_int8",),
    "amx_bf16": ("amx_bf16",),
}
X86_SUMMARY = {"vnni": ("avx_vnni", "avx512_vnni"), "amx": ("amx_int8", "amx_bf16")}
"""True if one of the two is: what a person asks for."""


class FeaturesProber:
    """dict[str, bool | None] of the machine's own architecture; empty when not even that is known."""

    name = "cpu features"

    def probe(self, machine: Machine) -> dict[str, bool | None]:
        flags = cpuinfo.read(machine).flags()
        if flags is None:
            listed = lscpu.read(machine).value("flags")
            flags = listed.split() if listed else None
        return named(set(flags)) if flags is not None else {}


def named(flags: set[str]) -> dict[str, bool | None]:
    """The kernel's flags under our names. Pure."""
    table = table_of(flags)
    found: dict[str, bool | None] = {name: flags.issuperset(needed) for name, needed in table.items()}
    if table is X86_FEATURES:
        found.update({name: any(found[part] for part in parts) for name, parts in X86_SUMMARY.items()})
    return found


def table_of(flags: set[str]) -> dict[str, tuple[str, ...]]:
    """Which architecture's list this is: 64-bit ARM always has `fp` or `asimd`, 32-bit ARM `half`, x86 `fpu`."""
    if flags & {"asimd", "fp"}:
        return ARM64_FEATURES
    if flags & {"half", "thumb", "swp", "edsp", "neon"}:
        return ARM32_FEATURES
    return X86_FEATURES if flags & {"fpu", "sse", "lm", "tsc"} else {}
