"""Thermal zones: name, temperature, trip points. One zone that cannot be read loses that zone's temperature only."""

from __future__ import annotations

from agent.hardware.probers import throttling
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import ThermalFacts, ThermalZone

ZONE_DIR = "sys/class/thermal"
HWMON_DIR = "sys/class/hwmon"
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")
PLAUSIBLE_C = (-55.0, 150.0)
"""What a silicon sensor can mean; a zone whose unit is powered down shows -256 or 0x80000000."""


class ThermalProber:
    """ThermalFacts. Where the kernel has no thermal zones the CPU's own sensors stand for them."""

    name = "thermal"

    def probe(self, machine: Machine) -> ThermalFacts:
        names = machine.names(ZONE_DIR, r"thermal_zone\d+")
        zones = [_zone(machine, name) for name in names] or _sensors(machine) or _listed(machine)
        return ThermalFacts(zones=zones, throttled=throttling.read(machine))


def _zone(machine: Machine, name: str) -> ThermalZone:
    here = f"{ZONE_DIR}/{name}"
    temp_c = _celsius(machine, f"{here}/temp")
    if temp_c is None and machine.exists(f"{here}/temp"):
        machine.warn(f"{here}/temp: no temperature")
    trips: dict[str, float] = {}
    for entry in machine.names(here, r"trip_point_\d+_type"):
        kind = machine.text(f"{here}/{entry}")
        limit = _celsius(machine, f"{here}/{entry.removesuffix('_type')}_temp")
        if kind is not None and limit is not None and limit > 0:
            trips[kind] = min(limit, trips.get(kind, limit))
    return ThermalZone(
        name=machine.text(f"{here}/type") or name,
        temp_c=temp_c,
        passive_c=trips.get("passive"),
        critical_c=trips.get("critical"),
    )


def _sensors(machine: Machine) -> list[ThermalZone]:
    zones = []
    for chip in machine.names(HWMON_DIR, r"hwmon\d+"):
        kind = machine.text(f"{HWMON_DIR}/{chip}/name")
        if kind not in CPU_SENSORS:
            continue
        for entry in machine.names(f"{HWMON_DIR}/{chip}", r"temp\d+_input"):
            sensor = f"{HWMON_DIR}/{chip}/{entry.removesuffix('_input')}"
            label = machine.text(f"{sensor}_label")
            zones.append(
                ThermalZone(
                    name=f"{kind} {label}" if label else kind,
                    temp_c=_celsius(machine, f"{sensor}_input"),
                    critical_c=_celsius(machine, f"{sensor}_crit"),
                )
            )
    return zones


def _listed(machine: Machine) -> list[ThermalZone]:
    """Zones whose names alone were recorded: "npu_thermal-virtual-0" in the list of hwmon names."""
    lines = (machine.recorded("hwmon-names") or "").split()
    return [ThermalZone(name=line.partition("-virtual")[0]) for line in lines if "thermal" in line]


def _celsius(machine: Machine, path: str) -> float | None:
    """Millidegrees, as the kernel's ABI has it; some vendors' kernels write whole degrees."""
    value = machine.integer(path)
    if value is None:
        return None
    celsius = value / 1000 if abs(value) >= 1000 or value == 0 else float(value)
    return celsius if PLAUSIBLE_C[0] <= celsius <= PLAUSIBLE_C[1] else None
