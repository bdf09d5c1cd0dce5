"""Accelerators that are part of an ARM SoC: known from the SoC, their driver and node looked for."""

from __future__ import annotations

import re

from agent.hardware.probers import device_tree, raspberry_pi, soc
from agent.hardware.probers.accelerators import readiness
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind, AcceleratorStatus

PI_SOCS = {"BCM2711": "brcm,bcm2711", "BCM2712": "brcm,bcm2712"}
DLA_NODES = {"dev/nvhost-nvdla0": "NVDLA 0", "dev/nvhost-nvdla1": "NVDLA 1", "dev/nvhost-ctrl-nvdla0": "NVDLA 0"}


class OnDieProber:
    """What the silicon has is present whether or not a driver is loaded; a driver and a node make it usable."""

    name = "on-die accelerators"

    def probe(self, machine: Machine) -> list[Accelerator]:
        found = _soc(machine)
        units = found.units if found is not None else ()
        drm = drm_drivers(machine)
        return [*(_accelerator(machine, unit, drm) for unit in units), *_deep_learning_accelerators(machine)]


def drm_drivers(machine: Machine) -> dict[str, list[str]]:
    """Driver -> its device nodes, from the DRM class; render nodes first."""
    drivers: dict[str, list[str]] = {}
    for name in sorted(machine.names("sys/class/drm", r"card\d+|renderD\d+"), reverse=True):
        event = machine.text(f"sys/class/drm/{name}/device/uevent") or ""
        match = re.search(r"^DRIVER=(\S+)", event, flags=re.MULTILINE)
        if match:
            drivers.setdefault(match.group(1), []).append(f"dev/dri/{name}")
    return drivers


def _soc(machine: Machine) -> soc.Soc | None:
    compatible = device_tree.compatible(machine)
    if compatible:
        return soc.find(compatible)
    revision = raspberry_pi.revision(machine)
    return soc.SOCS.get(PI_SOCS.get(revision.soc or "", "")) if revision is not None else None


def _accelerator(machine: Machine, unit: soc.Unit, drm: dict[str, list[str]]) -> Accelerator:
    driver = _driver(machine, unit, drm)
    nodes = readiness.existing(machine, drm.get(driver or "", []))
    own = [pattern for pattern in unit.nodes if not pattern.startswith("dev/dri/")]
    nodes += readiness.existing(machine, own)
    ready = readiness.judge(machine, driver, False, nodes)
    detail = ready.detail
    if ready.status is AcceleratorStatus.PRESENT and driver is None:
        seen = _hints(machine, unit)
        detail = f"part of the SoC{seen}; whether a driver is loaded is not known"
        if _disabled(machine, unit):
            detail = "part of the SoC; switched off in the device tree"
        elif machine.live:
            ready = ready._replace(status=AcceleratorStatus.NO_DRIVER)
            detail = f"part of the SoC{seen}; none of its drivers is loaded ({', '.join(unit.drivers)})"
    return Accelerator(
        kind=unit.kind,
        vendor=unit.vendor,
        name=unit.name,
        status=ready.status,
        detail=detail,
        driver=driver,
        device_node=ready.node,
        unified_memory=True,
    )


def _driver(machine: Machine, unit: soc.Unit, drm: dict[str, list[str]]) -> str | None:
    for driver in unit.drivers:
        if driver in drm or machine.exists(f"sys/module/{driver}") or _bound(machine, driver):
            return driver
    return None


def _bound(machine: Machine, driver: str) -> bool:
    """A platform driver with at least one device: its folder then holds more than the kernel's own files."""
    entries = set(machine.names(f"sys/bus/platform/drivers/{driver}"))
    return bool(entries - {"bind", "unbind", "uevent", "module"})


def _hints(machine: Machine, unit: soc.Unit) -> str:
    """A thermal zone of its own shows that the kernel knows the unit."""
    word = unit.kind.value
    names = machine.names("sys/class/thermal", r"thermal_zone\d+")
    zones = [machine.text(f"sys/class/thermal/{name}/type") or "" for name in names]
    zones += (machine.recorded("hwmon-names") or "").split()
    return f", has a thermal zone ({word})" if any(zone.lower().startswith(word) for zone in zones) else ""


def _disabled(machine: Machine, unit: soc.Unit) -> bool:
    return device_tree.node_enabled(machine, rf"{unit.kind.value}@.*") is False


def _deep_learning_accelerators(machine: Machine) -> list[Accelerator]:
    """Jetson's NVDLA cores: not on every module of a family, so only a node proves them."""
    found: dict[str, Accelerator] = {}
    for node, name in DLA_NODES.items():
        if machine.exists(node) and name not in found:
            ready = readiness.judge(machine, "nvdla", True, [node])
            found[name] = Accelerator(
                kind=AcceleratorKind.NPU,
                vendor="NVIDIA",
                name=name,
                status=ready.status,
                detail=ready.detail,
                driver="nvdla",
                device_node=ready.node,
                unified_memory=True,
            )
    return list(found.values())
