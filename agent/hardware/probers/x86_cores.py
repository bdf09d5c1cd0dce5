"""Names of x86 cores by vendor, family and model. Data, and one look-up.

Source: Linux, arch/x86/include/asm/intel-family.h, and AMD's family numbers in arch/x86/include/asm/cpufeatures and
arch/x86/kernel/cpu/amd.c.
"""

from __future__ import annotations

from typing import NamedTuple


class Hybrid(NamedTuple):
    """A CPU with unlike cores."""

    performance: str
    efficient: str


HYBRIDS = {
    0x8A: Hybrid("Sunny Cove", "Tremont"),  # Lakefield
    0x97: Hybrid("Golden Cove", "Gracemont"),  # Alder Lake-S
    0x9A: Hybrid("Golden Cove", "Gracemont"),  # Alder Lake-H, -P, -U
    0xB7: Hybrid("Raptor Cove", "Gracemont"),  # Raptor Lake-S
    0xBA: Hybrid("Raptor Cove", "Gracemont"),  # Raptor Lake-H, -P, -U
    0xBF: Hybrid("Raptor Cove", "Gracemont"),  # Raptor Lake-S, smaller die
    0xAA: Hybrid("Redwood Cove", "Crestmont"),  # Meteor Lake-H, -U
    0xAC: Hybrid("Redwood Cove", "Crestmont"),  # Meteor Lake
    0xB5: Hybrid("Redwood Cove", "Crestmont"),  # Arrow Lake-U
    0xC5: Hybrid("Lion Cove", "Skymont"),  # Arrow Lake-H
    0xC6: Hybrid("Lion Cove", "Skymont"),  # Arrow Lake-S, -HX
    0xBD: Hybrid("Lion Cove", "Skymont"),  # Lunar Lake
    0xCC: Hybrid("Cougar Cove", "Darkmont"),  # Panther Lake
}

INTEL_FAMILY_6 = {
    0x25: "Westmere",
    0x2C: "Westmere",
    0x2A: "Sandy Bridge",
    0x2D: "Sandy Bridge",
    0x3A: "Ivy Bridge",
    0x3E: "Ivy Bridge",
    0x3C: "Haswell",
    0x3F: "Haswell",
    0x45: "Haswell",
    0x46: "Haswell",
    0x3D: "Broadwell",
    0x47: "Broadwell",
    0x4F: "Broadwell",
    0x56: "Broadwell",
    0x4E: "Skylake",
    0x5E: "Skylake",
    0x55: "Skylake-SP",
    0x8E: "Kaby Lake",
    0x9E: "Kaby Lake",
    0xA5: "Comet Lake",
    0xA6: "Comet Lake",
    0x66: "Palm Cove",
    0x7E: "Sunny Cove",
    0x6A: "Sunny Cove",
    0x6C: "Sunny Cove",
    0xA7: "Cypress Cove",
    0x8C: "Willow Cove",
    0x8D: "Willow Cove",
    0x8F: "Golden Cove",
    0xCF: "Raptor Cove",
    0xAD: "Redwood Cove",
    0x37: "Silvermont",
    0x4D: "Silvermont",
    0x4C: "Airmont",
    0x5C: "Goldmont",
    0x5F: "Goldmont",
    0x7A: "Goldmont Plus",
    0x86: "Tremont",
    0x96: "Tremont",
    0x9C: "Tremont",
    0xBE: "Gracemont",
    0xAF: "Crestmont",
    0xB6: "Crestmont",
}

AMD_FAMILIES = {0x15: "Bulldozer family", 0x16: "Jaguar family", 0x17: "Zen", 0x1A: "Zen 5"}
AMD_ZEN_2_FROM_MODEL = 0x30
"""Within family 17h, models from 30h on are Zen 2."""
AMD_ZEN_4_MODELS = (range(0x10, 0x20), range(0x60, 0x80), range(0xA0, 0xB0))
"""Within family 19h; the other models are Zen 3."""


def hybrid(vendor: str | None, family: int | None, model: int | None) -> Hybrid | None:
    return HYBRIDS.get(model or 0) if vendor == "GenuineIntel" and family == 6 else None


def core_name(vendor: str | None, family: int | None, model: int | None) -> str | None:
    """Of a CPU whose cores are alike. The numbers in hex where the name is not known, None where they are not."""
    if family is None or model is None:
        return None
    unknown = f"family 0x{family:x} model 0x{model:02x}"
    if vendor == "GenuineIntel" and family == 6:
        return INTEL_FAMILY_6.get(model, unknown)
    if vendor == "AuthenticAMD" and family == 0x19:
        return "Zen 4" if any(model in models for models in AMD_ZEN_4_MODELS) else "Zen 3"
    if vendor == "AuthenticAMD" and family == 0x17 and model >= AMD_ZEN_2_FROM_MODEL:
        return "Zen 2"
    if vendor == "AuthenticAMD":
        return AMD_FAMILIES.get(family, unknown)
    return unknown
