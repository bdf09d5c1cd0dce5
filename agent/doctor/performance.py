"""Findings about how fast models run here. Pure; those about load need a daemon that serves."""

from __future__ import annotations

from collections.abc import Iterator

from agent.doctor.facts import DoctorFacts
from agent.doctor.finding import Finding, fault, hint
from agent.hardware.budget import threads_of
from edge_contracts.capabilities import AcceleratorKind

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TBB_NUM_THREADS")
LOW_CPU_SHARE = 0.5
LOW_GPU_MEMORY_SHARE = 0.5
JUMP_RATIO = 5.0


def threads_above_the_budget(facts: DoctorFacts) -> Iterator[Finding]:
    """More threads than CPUs that may be used: they wait for one another, and a quota stops them all."""
    cpu = facts.device.cpu
    if cpu.budget_cpus is None:
        return
    most = threads_of(cpu.budget_cpus)
    why = f"this device's budget is {cpu.budget_cpus:g} CPUs (limited by {cpu.budget_source})"
    for model in facts.models:
        if model.threads is not None and model.threads > most:
            yield fault(
                "threads-above-budget", f"{model.name} is served with {model.threads} threads, and {why}",
                f"install the bundle again so that it is raced within the budget, or --num-threads {most}",
            )  # fmt: skip
    for name in THREAD_VARIABLES:
        value = facts.environ.get(name, "")
        if value.isdecimal() and int(value) > most:
            yield fault("threads-above-budget", f"{name}={value}, and {why}", f"unset {name}, or set it to {most}")


def low_cpu_use(facts: DoctorFacts) -> Iterator[Finding]:
    """Requests wait while CPUs of the budget idle."""
    budget, used = facts.device.cpu.budget_cpus, facts.own_cpus
    if budget is None or used is None or used >= LOW_CPU_SHARE * budget:
        return
    for model in facts.models:
        if model.queued and model.target == "cpu" and (model.threads or 1) < threads_of(budget):
            yield hint(
                "low-cpu-use",
                f"{model.queued} requests wait for {model.name}, which has {model.threads or 1} threads, while "
                f"{used:.1f} of {budget:g} CPUs are used",
                f"more threads: --num-threads {threads_of(budget)} (mindie bench shows what each count gives)",
            )


def unused_gpu_memory(facts: DoctorFacts) -> Iterator[Finding]:
    """A GPU that is asked one by one does little at a time."""
    gpus = [a for a in facts.device.accelerators if a.kind is AcceleratorKind.GPU and a.memory_mb and a.memory_used_mb]
    waiting = [model for model in facts.models if model.target == "gpu" and model.queued]
    for gpu in gpus:
        used, whole = gpu.memory_used_mb or 0, gpu.memory_mb or 1
        if waiting and used < LOW_GPU_MEMORY_SHARE * whole:
            yield hint(
                "unused-gpu-memory",
                f"{gpu.name or 'the GPU'} uses {used} of {whole} MiB while {waiting[0].queued} requests wait for "
                f"{waiting[0].name}",
                "batching: mindie serve --enable-batch-inference, with a larger --max-batch",
            )


def shape_churn(facts: DoctorFacts) -> Iterator[Finding]:
    """Most runtimes plan memory and kernels anew for every shape that they have not met."""
    for model in facts.models:
        if not model.open_dims or not model.p50_ms or not model.p99_ms or model.p99_ms < JUMP_RATIO * model.p50_ms:
            continue
        name, dims = next(iter(model.open_dims.items()))
        yield hint(
            "shape-churn",
            f"{model.name}: p99 {model.p99_ms:.1f} ms is {model.p99_ms / model.p50_ms:.0f} times p50, and a request "
            f"decides {', '.join(dims)} of its input {name}",
            f"fixed input shapes: mindie serve --fixed-shape {name}=1,3,224,224 with the shape that you send",
        )


CHECKS = (threads_above_the_budget, low_cpu_use, unused_gpu_memory, shape_churn)
