"""Whether the machine is being slowed, by heat, by power or by a limit on its clock, and whether it has been.

Sources: the Raspberry Pi documentation's table for `vcgencmd get_throttled`; the kernel's thermal and cpufreq ABI; for
Jetson the over-current event counters of its soctherm driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.hardware import cpu_list
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Throttling

PI_BITS = {
    0: "under-voltage",
    1: "arm frequency capped",
    2: "throttled",
    3: "soft temperature limit active",
}
PI_HISTORY = {
    16: "under-voltage has occurred",
    17: "arm frequency capping has occurred",
    18: "throttling has occurred",
    19: "soft temperature limit has occurred",
}
PI_SYSFS = "sys/devices/platform/soc/soc:firmware/get_throttled"
COOLING_FANS = re.compile(r".*fan.*|intel_powerclamp|TCC Offset|.*backlight.*|.*gpu-power.*", re.IGNORECASE)
"""Cooling devices whose use does not slow the CPU, or that are idle injection used by nobody."""


def read(machine: Machine) -> Throttling | None:
    """None when nothing on this machine tells; else with every reason that was found."""
    found = [part for part in (_raspberry_pi(machine), _kernel(machine)) if part is not None]
    if not found:
        return None
    return Throttling(
        now=any(part.now for part in found),
        since_boot=_any_known(part.since_boot for part in found),
        reasons=[reason for part in found for reason in part.reasons],
        source=", ".join(part.source for part in found if part.source),
    )


def _any_known(values: Iterable[bool | None]) -> bool | None:
    known = [value for value in values if value is not None]
    return any(known) if known else None


# -- Raspberry Pi


def _raspberry_pi(machine: Machine) -> Throttling | None:
    text = machine.text(PI_SYSFS)
    if text is not None:
        bits = parse_bits(f"throttled=0x{text.removeprefix('0x')}")
        return of_bits(bits, "firmware") if bits is not None else None
    bits = parse_bits(_vcgencmd(machine) or "")
    return of_bits(bits, "vcgencmd get_throttled") if bits is not None else None


def _vcgencmd(machine: Machine) -> str | None:
    names = ("vcgencmd", "vcgencmd-get_throttled", "vcgencmd-get-throttled", "get_throttled")
    if machine.live and not machine.exists("dev/vcio"):
        return None
    return machine.output(("vcgencmd", "get_throttled"), names)


def parse_bits(text: str) -> int | None:
    """From "throttled=0x50005", alone or among other lines; or a bare 0x50005. Pure."""
    match = re.search(r"throttled=(0x[0-9a-fA-F]+)", text) or re.fullmatch(r"\s*(0x[0-9a-fA-F]+)\s*", text)
    return int(match.group(1), 16) if match else None


def of_bits(bits: int, source: str) -> Throttling:
    """Pure."""
    now = [f"{name} now" for bit, name in PI_BITS.items() if bits >> bit & 1]
    history = [name for bit, name in PI_HISTORY.items() if bits >> bit & 1]
    return Throttling(now=bool(now), since_boot=bool(now or history), reasons=now + history, source=source)


# -- any kernel


def _kernel(machine: Machine) -> Throttling | None:
    limited, clocks_known = _clock_limits(machine)
    cooling, cooling_known = _cooling(machine)
    events, events_known = _events(machine)
    if not (clocks_known or cooling_known or events_known):
        return None
    return Throttling(
        now=bool(limited or cooling),
        since_boot=True if limited or cooling or events else False if events_known else None,
        reasons=[*limited, *cooling, *events],
        source="kernel",
    )


def _clock_limits(machine: Machine) -> tuple[list[str], bool]:
    """Policies whose ceiling is below what the silicon can do: set by heat, by a person or by a power mode."""
    limited, known = [], False
    for name in machine.names("sys/devices/system/cpu/cpufreq", r"policy\d+"):
        here = f"sys/devices/system/cpu/cpufreq/{name}"
        ceiling, most = machine.integer(f"{here}/scaling_max_freq"), machine.integer(f"{here}/cpuinfo_max_freq")
        if ceiling is None or most is None:
            continue
        known = True
        if ceiling < most:
            cpus = cpu_list.render(machine.cpus(f"{here}/related_cpus") or []) or name
            limited.append(f"clock of CPUs {cpus} limited to {ceiling // 1000} of {most // 1000} MHz")
    return limited, known


def _cooling(machine: Machine) -> tuple[list[str], bool]:
    """Cooling devices that slow a processor and are in use (cur_state above 0)."""
    active, known = [], False
    for name in machine.names("sys/class/thermal", r"cooling_device\d+"):
        kind = machine.text(f"sys/class/thermal/{name}/type") or name
        state = machine.integer(f"sys/class/thermal/{name}/cur_state")
        if state is None or COOLING_FANS.fullmatch(kind):
            continue
        known = True
        if state > 0:
            active.append(f"cooling by {kind} (step {state})")
    return active, known


def _events(machine: Machine) -> tuple[list[str], bool]:
    """Counters since boot: x86 core and package throttling, Jetson over-current."""
    found, known = [], False
    counts = [
        machine.integer(f"sys/devices/system/cpu/cpu0/thermal_throttle/{name}")
        for name in ("core_throttle_count", "package_throttle_count")
    ]
    if any(count is not None for count in counts):
        known = True
        if any(counts):
            found.append("throttled by heat since boot")
    for chip in machine.names("sys/class/hwmon", r"hwmon\d+"):
        for name in machine.names(f"sys/class/hwmon/{chip}", r"oc\d+_event_cnt"):
            known = True
            count = machine.integer(f"sys/class/hwmon/{chip}/{name}")
            if count:
                found.append(f"over-current throttling since boot ({name.removesuffix('_event_cnt')}: {count} times)")
    return found, known
