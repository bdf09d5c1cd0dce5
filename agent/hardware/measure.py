"""`--measure`: memory bandwidth and fp32 arithmetic, measured in a child process.

The child imports NumPy, the caller never does. It gets the threads that the device's budget allows, and no more memory
than an eighth of what is available, so that a 512 MB board survives its own measurement.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from agent.hardware import figures
from agent.hardware.budget import threads_of
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, Capabilities

CHILD_MODULE = "agent.hardware.measure_child"
TIMEOUT_S = 60.0
LARGEST_ARRAY_MB = 256
SMALLEST_ARRAY_MB = 16
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS")

RunChild = Callable[[Sequence[str], Mapping[str, str], float], "tuple[bytes, str]"]
"""(argv, environment, timeout_s) -> (standard output, one line saying why there is none)."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The child's answer. Bandwidth counts bytes read plus bytes written; arithmetic is a matrix product."""

    bandwidth_gb_s: float
    gflops_fp32: float


def measured(facts: Capabilities, machine: Machine, run_child: RunChild | None = None) -> Capabilities:
    """`facts` with what could be measured; a measurement that fails is a warning and leaves its facts unknown."""
    facts = msgspec.structs.replace(facts, accelerators=_with_memory(facts.accelerators, machine))
    threads = threads_of(facts.cpu.budget_cpus)
    argv = [sys.executable, "-m", CHILD_MODULE, str(array_mb(facts.memory.available_mb)), str(threads)]
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
    output, problem = (run_child or _run_child)(argv, environment, TIMEOUT_S)
    try:
        result = msgspec.json.decode(output, type=Measured)
    except msgspec.DecodeError:
        machine.warn(f"--measure: nothing measured: {problem or 'the measuring process gave no result'}")
        return facts
    return msgspec.structs.replace(
        facts,
        cpu=msgspec.structs.replace(facts.cpu, gflops_fp32=round(result.gflops_fp32, 1)),
        memory=msgspec.structs.replace(facts.memory, bandwidth_gb_s=round(result.bandwidth_gb_s, 1)),
    )


def array_mb(available_mb: int | None) -> int:
    """Size of each of the child's two arrays: beyond any cache, and together at most a quarter of what is free."""
    free = available_mb if available_mb is not None else 8 * SMALLEST_ARRAY_MB
    return max(SMALLEST_ARRAY_MB, min(LARGEST_ARRAY_MB, free // 8))


def _run_child(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> tuple[bytes, str]:
    try:
        done = subprocess.run(argv, env=dict(environment), capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return b"", f"no answer within {timeout_s:.0f} s"
    except OSError as error:
        return b"", str(error)
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return b"", lines[-1] if lines else f"exit status {done.returncode}"
    return done.stdout, ""


# -- NVIDIA: memory and compute capability are the driver's to tell


def _with_memory(found: list[Accelerator], machine: Machine) -> list[Accelerator]:
    if not any(accelerator.vendor == "NVIDIA" and accelerator.memory_mb is None for accelerator in found):
        return found
    columns = "pci.bus_id,memory.total,memory.used,compute_cap,temperature.gpu"
    argv = ("nvidia-smi", f"--query-gpu={columns}", "--format=csv,noheader,nounits")
    rows = parse_query(machine.output(argv, ("nvidia-smi-query",), 5.0) or "")
    return [_filled(accelerator, rows) for accelerator in found]


def parse_query(text: str) -> dict[str, list[str]]:
    """Slot ("01:00.0") -> the other columns of a headless, unitless CSV. Pure."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 5 and "." in cells[0]:
            rows[cells[0].lower()[-7:]] = cells[1:]
    return rows


def _filled(accelerator: Accelerator, rows: dict[str, list[str]]) -> Accelerator:
    row = rows.get((accelerator.bus_id or "").lower()[-7:])
    if accelerator.vendor != "NVIDIA" or row is None:
        return accelerator
    total, used, capability, temperature = (figures.real(cell) for cell in row)
    return msgspec.structs.replace(
        accelerator,
        memory_mb=int(total) if total is not None else None,
        memory_used_mb=int(used) if used is not None else None,
        temp_c=temperature,
        compute={"cuda_compute_capability": capability} if capability is not None else None,
    )
