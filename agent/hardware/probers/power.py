"""The power mode: nvpmodel's on a Jetson, the firmware's platform profile elsewhere."""

from __future__ import annotations

import re

from agent.hardware.sysfs import Machine


class PowerModeProber:
    """The mode's own name, e.g. "MODE_15W_6CORE" or "15W"; None where the board has none or does not tell.

    On a Jetson the state file and the table of modes are read first, so that nothing has to be executed.
    """

    name = "power mode"

    def probe(self, machine: Machine) -> str | None:
        return (
            parse_nvpmodel(machine.recorded("nvpmodel", "nvpmodel-q", "nvpmodel-query") or "")
            or _from_state(machine)
            or parse_nvpmodel(_ask(machine) or "")
            or machine.text("sys/firmware/acpi/platform_profile")
        )


def parse_nvpmodel(text: str) -> str | None:
    """The name after "NV Power Mode:" in `nvpmodel -q`, plain or --verbose. Pure."""
    match = re.search(r"NV Power Mode\s*:\s*(\S[^\r\n]*)", text)
    return match.group(1).strip() if match else None


def parse_mode_names(text: str) -> dict[int, str]:
    """Id -> name from nvpmodel.conf: lines "< POWER_MODEL ID=2 NAME=MODE_15W_6CORE >". Pure."""
    return {int(number): name for number, name in re.findall(r"POWER_MODEL\s+ID=(\d{1,9})\s+NAME=(\S+)", text)}


def _from_state(machine: Machine) -> str | None:
    match = re.match(r"pmode:0*(\d{1,9})", machine.text("var/lib/nvpmodel/status") or "")
    if match is None:
        return None
    return parse_mode_names(machine.text("etc/nvpmodel.conf") or "").get(int(match.group(1)))


def _ask(machine: Machine) -> str | None:
    if not machine.live or not machine.exists("etc/nvpmodel.conf"):
        return None
    return machine.output(("nvpmodel", "-q"), ("nvpmodel",))
