"""The facts as text for a person. Pure; unknown facts are left out rather than shown as blanks."""

from __future__ import annotations

from collections.abc import Iterator

from edge_contracts.capabilities import Accelerator, Capabilities, CpuCluster, RuntimeFact, ThermalFacts

LABEL_WIDTH = 12


def render(facts: Capabilities) -> str:
    """Lines "Label       text", further lines of one label indented below it."""
    lines = []
    for label, texts in _sections(facts):
        for index, text in enumerate(text for text in texts if text):
            lines.append(f"{label if index == 0 else '':<{LABEL_WIDTH}}{text}".rstrip())
    return "\n".join(lines) + "\n"


def _sections(facts: Capabilities) -> Iterator[tuple[str, list[str]]]:
    yield "Board", [facts.board.model or "unknown", _joined(", ", facts.board.soc, _profile(facts))]
    yield "System", _system(facts)
    yield "CPU", _cpu(facts)
    yield "Features", _features(facts)
    yield "Budget", [_budget(facts)]
    yield "Memory", [_memory(facts)]
    yield "Accelerator", [_accelerator(found) for found in facts.accelerators] or ["none found"]
    yield "Thermal", _thermal(facts.thermal)
    yield "Power mode", [facts.power_mode or ""]
    yield "Runtimes", [_runtime(runtime) for runtime in facts.runtimes]


def _joined(separator: str, *parts: str | None) -> str:
    return separator.join(part for part in parts if part)


def _profile(facts: Capabilities) -> str | None:
    return f"profile {facts.board.profile}" if facts.board.profile else None


def _system(facts: Capabilities) -> list[str]:
    bits = f"{facts.os.userland_bits}-bit userland" if facts.os.userland_bits else None
    name = _joined(" ", facts.os.id, facts.os.version)
    return [_joined(", ", name, _joined(" ", facts.os.kernel, facts.os.kernel_arch), bits, facts.os.firmware)]


def _cpu(facts: Capabilities) -> list[str]:
    cpu = facts.cpu
    counts = [f"{cpu.physical_cores} cores" if cpu.physical_cores else None]
    counts.append(f"{cpu.logical_cpus} logical CPUs" if cpu.logical_cpus else None)
    online = f"(online {cpu.online})" if cpu.online else None
    speed = f"{cpu.gflops_fp32:g} GFLOPS fp32" if cpu.gflops_fp32 is not None else None
    head = _joined(", ", _joined(" ", _joined(", ", *counts), online), speed)
    return [head or "unknown", *(_cluster(cluster) for cluster in cpu.clusters)]


def _cluster(cluster: CpuCluster) -> str:
    cores = f"{cluster.cores} x " if cluster.cores else ""
    return _joined(
        ", ",
        f"{cores}{cluster.core or 'unknown core'}",
        f"CPUs {cluster.logical_cpus}" if cluster.logical_cpus else None,
        f"{cluster.threads_per_core} threads per core" if (cluster.threads_per_core or 1) > 1 else None,
        f"{cluster.max_mhz} MHz" if cluster.max_mhz else None,
        "switched off" if cluster.online is False else None,
    )


def _features(facts: Capabilities) -> list[str]:
    return [" ".join(name for name, present in facts.cpu.features.items() if present)]


def _budget(facts: Capabilities) -> str:
    if facts.cpu.budget_cpus is None:
        return "unknown"
    return f"{facts.cpu.budget_cpus:g} CPUs (limited by {facts.cpu.budget_source})"


def _memory(facts: Capabilities) -> str:
    memory = facts.memory
    return _joined(
        ", ",
        f"{memory.total_mb} MiB" if memory.total_mb is not None else "unknown",
        f"{memory.nominal_mb} MiB fitted" if memory.nominal_mb is not None else None,
        f"{memory.available_mb} MiB available" if memory.available_mb is not None else None,
        f"limited to {memory.limit_mb} MiB" if memory.limit_mb is not None else None,
        f"{memory.bandwidth_gb_s:g} GB/s" if memory.bandwidth_gb_s is not None else None,
    )


def _accelerator(found: Accelerator) -> str:
    count = f"{found.count} x " if found.count > 1 else ""
    name = _joined(" ", found.vendor, found.name)
    memory = f", {found.memory_mb} MiB" if found.memory_mb is not None else ""
    detail = f" ({found.detail})" if found.detail else ""
    return f"{found.kind.value.upper()} {count}{name}{memory}: {found.status}{detail}"


def _thermal(thermal: ThermalFacts) -> list[str]:
    zones = ", ".join(f"{z.name} {z.temp_c:.0f} °C" if z.temp_c is not None else z.name for z in thermal.zones)
    throttled = thermal.throttled
    if throttled is None:
        return [zones]
    return [zones, "; ".join(throttled.reasons) or "not throttled"]


def _runtime(runtime: RuntimeFact) -> str:
    targets = f" on {', '.join(runtime.targets)}" if runtime.targets else ""
    detail = f" ({runtime.detail})" if runtime.detail else ""
    return f"{_joined(' ', runtime.name, runtime.version)}: {runtime.status}{targets}{detail}"
