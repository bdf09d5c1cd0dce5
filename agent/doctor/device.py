"""Findings about the device: accelerators that are not ready, its clock, disk and userland. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from agent.doctor.facts import DoctorFacts
from agent.doctor.finding import Finding, fault, hint
from edge_contracts.capabilities import Accelerator, AcceleratorKind, AcceleratorStatus

DAY_MS = 86_400_000
ALLOWED_SKEW_MS = 300_000
"""Five minutes: beyond that certificates, tokens and signed metadata are refused here and there."""
LEAST_FREE_SHARE, ENOUGH_FREE_BYTES = 0.05, 2 << 30
LEAST_FREE_BYTES = 256 << 20
KERNELS_OF_64_BIT = ("aarch64", "arm64", "x86_64", "amd64", "riscv64")


def accelerators_not_ready(facts: DoctorFacts) -> Iterator[Finding]:
    """Chips that are there and cannot be used. A GPU without a driver may be meant: it only drives a screen."""
    for found in facts.device.accelerators:
        name = " ".join(part for part in (found.vendor, found.name, found.kind.value.upper()) if part)
        detail = f" ({found.detail})" if found.detail else ""
        if found.status is AcceleratorStatus.NO_PERMISSION:
            yield fault(f"{found.kind}-no-permission", f"{name}: this user may not use it{detail}", _permission(found))
        elif found.status is AcceleratorStatus.NO_DRIVER:
            say = hint if found.kind is AcceleratorKind.GPU else fault
            yield say(
                f"{found.kind}-no-driver", f"{name}: its driver or firmware is missing{detail}",
                found.detail or "install the vendor's driver and firmware packages, then reboot",
            )  # fmt: skip
        elif found.health and found.health.lower() not in ("ok", "good", "healthy"):
            yield fault(f"{found.kind}-unhealthy", f"{name}: says of itself: {found.health}", "see the vendor's tool")


def wrong_clock(facts: DoctorFacts) -> Iterator[Finding]:
    """A clock that is off makes good certificates and signatures look expired or not yet valid."""
    clock = facts.clock
    if clock is None:
        return
    fix = "timedatectl set-ntp true (without a network: sudo date --utc --set 'YYYY-MM-DD HH:MM')"
    if clock.built_ms is not None and clock.now_ms < clock.built_ms - DAY_MS:
        text = f"the clock says {_day(clock.now_ms)}, and mindie was installed on {_day(clock.built_ms)}"
        yield fault("wrong-clock", text, fix)
    elif clock.server_ms is not None and abs(clock.now_ms - clock.server_ms) > ALLOWED_SKEW_MS:
        minutes = abs(clock.now_ms - clock.server_ms) / 60_000
        side = "behind" if clock.now_ms < clock.server_ms else "ahead of"
        yield fault("wrong-clock", f"the clock is {minutes:.0f} minutes {side} the fleet server's", fix)


def userland_of_32_bits(facts: DoctorFacts) -> Iterator[Finding]:
    """The kernel could, the programs cannot: most runtimes have no wheel for it."""
    system = facts.device.os
    if system.userland_bits == 32 and system.kernel_arch in KERNELS_OF_64_BIT:
        yield fault(
            "32-bit-userland",
            f"a 64-bit kernel ({system.kernel_arch}) runs a 32-bit userland: most runtimes have no wheel for it",
            "install the board's 64-bit image; the userland decides, not uname -m",
        )


def disk_nearly_full(facts: DoctorFacts) -> Iterator[Finding]:
    """An update needs its bundle twice."""
    disk = facts.disk
    if disk is None or disk.free_bytes >= ENOUGH_FREE_BYTES:
        return
    if disk.free_bytes < max(LEAST_FREE_BYTES, LEAST_FREE_SHARE * disk.total_bytes):
        yield fault(
            "disk-nearly-full", f"{disk.path}: {disk.free_bytes >> 20} of {disk.total_bytes >> 20} MiB are free",
            "make room there, or move the data folder with --data",
        )  # fmt: skip


def _permission(found: Accelerator) -> str:
    node = found.device_node or "the device node"
    groups = {AcceleratorKind.GPU: "render,video", AcceleratorKind.NPU: "render", AcceleratorKind.TPU: "plugdev"}
    group = groups.get(found.kind, "plugdev")
    return f"sudo usermod -aG {group} $USER, then log in again (the group that owns {node} counts: ls -l {node})"


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).strftime("%Y-%m-%d")


CHECKS = (accelerators_not_ready, wrong_clock, userland_of_32_bits, disk_nearly_full)
