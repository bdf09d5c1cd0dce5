"""NVIDIA Jetson: the release of its software (L4T), the JetPack it belongs to, and the power mode."""

from __future__ import annotations

import re

from agent.hardware.sysfs import Machine

JETPACKS = {
    "32.4.2": "4.4 DP",
    "32.4.3": "4.4",
    "32.4.4": "4.4.1",
    "32.5": "4.5",
    "32.5.0": "4.5",
    "32.5.1": "4.5.1",
    "32.6.1": "4.6",
    "32.7.1": "4.6.1",
    "32.7.2": "4.6.2",
    "32.7.3": "4.6.3",
    "32.7.4": "4.6.4",
    "32.7.5": "4.6.5",
    "32.7.6": "4.6.6",
    "35.1.0": "5.0.2",
    "35.2.1": "5.1",
    "35.3.1": "5.1.1",
    "35.4.1": "5.1.2",
    "35.5.0": "5.1.3",
    "35.6.0": "5.1.4",
    "35.6.1": "5.1.5",
    "36.2.0": "6.0 DP",
    "36.3.0": "6.0",
    "36.4.0": "6.1",
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "38.2.0": "7.0",
}
"""Source: developer.nvidia.com, "JetPack Archive" (each JetPack names its Jetson Linux release)."""


def release(machine: Machine) -> str | None:
    """ "L4T R32.7.6 (JetPack 4.6.6)", without the bracket for a release that the table does not know."""
    version = parse_release(machine.text("etc/nv_tegra_release") or "")
    if version is None:
        return None
    jetpack = JETPACKS.get(version) or JETPACKS.get(f"{version}.0")
    return f"L4T R{version}" + (f" (JetPack {jetpack})" if jetpack else "")


def parse_release(text: str) -> str | None:
    """ "32.7.6" from "# R32 (release), REVISION: 7.6, GCID: ..."; lines after the first may follow. Pure."""
    match = re.search(r"^#\s*R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)", text, flags=re.MULTILINE)
    return f"{match.group(1)}.{match.group(2)}" if match else None
