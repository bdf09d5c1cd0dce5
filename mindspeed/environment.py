"""What this machine offers a training run: torch and its build, devices, and the precisions its hardware does well."""

from __future__ import annotations

import os
from importlib import metadata

import msgspec

from mindspeed.errors import TrainerMissing

PIP_LINE = "pip install 'mindedge[trainer]'"


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One device. ``memory_gb``: GiB. ``bf16``: whether it computes bf16 in hardware. None: unknown."""

    kind: str
    name: str
    memory_gb: float | None
    bf16: bool | None


class EnvironmentReport(msgspec.Struct, frozen=True, kw_only=True):
    """``threads``: what torch would use. ``precision``: "bf16" where the first device does it, else "fp32"."""

    torch: str
    cuda: str | None
    threads: int
    cpus_allowed: int
    devices: list[DeviceReport]
    precision: str
    advice: list[str]


def inspect_environment() -> EnvironmentReport:
    """Look at torch and the hardware it sees. Raises TrainerMissing with the pip line."""
    try:
        import torch
    except ImportError as error:
        raise TrainerMissing(f"training needs torch: {PIP_LINE}") from error
    devices = [*_cuda_devices(torch), _cpu_device(torch)]
    threads, allowed = torch.get_num_threads(), len(os.sched_getaffinity(0))
    precision = "bf16" if devices[0].bf16 else "fp32"
    return EnvironmentReport(
        torch=metadata.version("torch"), cuda=torch.version.cuda, threads=threads, cpus_allowed=allowed,
        devices=devices, precision=precision, advice=advise(devices, threads, allowed),
    )  # fmt: skip


def advise(devices: list[DeviceReport], threads: int, allowed: int) -> list[str]:
    """What to change before a long run: pure."""
    advice = []
    if threads > allowed:
        advice.append(
            f"torch uses {threads} threads, this process may use {allowed} CPUs: set OMP_NUM_THREADS={allowed}"
        )
    if all(device.kind == "cpu" for device in devices):
        advice.append("no GPU is visible to torch: training runs on the CPU")
    if devices and devices[0].bf16 is False:
        advice.append(f"{devices[0].name} has no bf16 in hardware: mixed precision gains little here, stay with fp32")
    return advice


def _cuda_devices(torch: object) -> list[DeviceReport]:
    cuda = torch.cuda  # type: ignore[attr-defined]
    if not cuda.is_available():
        return []
    reports = []
    for number in range(cuda.device_count()):
        facts = cuda.get_device_properties(number)
        reports.append(
            DeviceReport(
                kind="cuda", name=facts.name, memory_gb=round(facts.total_memory / 2**30, 1), bf16=facts.major >= 8
            )
        )
    return reports


def _cpu_device(torch: object) -> DeviceReport:
    capability = torch.backends.cpu.get_cpu_capability()  # type: ignore[attr-defined]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return DeviceReport(kind="cpu", name=f"CPU ({capability})", memory_gb=round(pages / 2**30, 1), bf16=_cpu_has_bf16())


def _cpu_has_bf16() -> bool | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a pseudo file
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "").split()
    except OSError:
        return None
    return any(flag in flags for flag in ("avx512_bf16", "amx_bf16", "bf16"))
