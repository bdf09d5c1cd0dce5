"""What a result must say of where and when it was taken."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from agent.hardware.probe import probe
from agent.hardware.sysfs import this_machine

RUNTIMES = ("onnxruntime", "openvino", "ai-edge-litert", "tflite-runtime")


def described(command: Sequence[str]) -> dict[str, Any]:
    """date, CPU, features that decide, CPUs, load before the run, runtime versions, command."""
    facts = probe(this_machine())
    features = [name for name, there in sorted(facts.cpu.features.items()) if there]
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "cpu": cpu_name(), "features": features,
        "cpus": facts.cpu.logical_cpus, "budget_cpus": facts.cpu.budget_cpus,
        "load_before": round(os.getloadavg()[0], 2), "python": sys.version.split()[0],
        "runtimes": {name: found for name in RUNTIMES if (found := _version(name))}, "command": " ".join(command),
    }  # fmt: skip


def cpu_name() -> str:
    """As the kernel tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - a device file of the kernel's
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return "unknown"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
