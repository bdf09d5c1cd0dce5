"""Findings about what is installed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from agent.doctor.facts import DoctorFacts
from agent.doctor.finding import Finding, fault
from edge_contracts.capabilities import RuntimeStatus

RIVALS = ("onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "onnxruntime-qnn", "onnxruntime-cann",
          "onnxruntime-rocm", "onnxruntime-training")  # fmt: skip
"""Builds that install the same files as onnxruntime: the last one wins, its providers vanish with the next upgrade."""


def onnxruntime_twice(facts: DoctorFacts) -> Iterator[Finding]:
    """Two builds of ONNX Runtime in one environment."""
    found = [name for name in ("onnxruntime", *RIVALS) if name in facts.distributions]
    if len(found) > 1:
        special = next(name for name in found if name != "onnxruntime")
        yield fault(
            "onnxruntime-twice", f"{' and '.join(found)} are installed together and overwrite each other's files",
            f"pip uninstall -y {' '.join(found)} && pip install {special}",
        )  # fmt: skip


def numpy_2_with_tflite_runtime(facts: DoctorFacts) -> Iterator[Finding]:
    """tflite-runtime was built for NumPy 1: it imports, and its first Interpreter fails."""
    numpy = facts.distributions.get("numpy", "")
    if "tflite-runtime" not in facts.distributions or not numpy or "ai-edge-litert" in facts.distributions:
        return
    major = numpy.split(".")[0]
    if major.isdecimal() and int(major) >= 2:
        yield fault(
            "numpy-2-with-tflite-runtime",
            f"tflite-runtime was built for NumPy 1 and NumPy {numpy} is installed: it imports and then fails",
            "pip install 'numpy<2', or where there is a wheel: pip install ai-edge-litert",
        )  # fmt: skip


def broken_runtimes(facts: DoctorFacts) -> Iterator[Finding]:
    """A runtime that is there and cannot be imported."""
    for runtime in facts.device.runtimes:
        if runtime.status == RuntimeStatus.BROKEN.value:
            line = facts.pip_lines.get(runtime.name, "")
            yield fault(
                f"{runtime.name}-broken",
                f"{runtime.name} is installed and does not work: {runtime.detail or 'it gives no reason'}",
                "install a version made for this device" + (f": {line}" if line else ""),
            )


def no_runtime(facts: DoctorFacts) -> Iterator[Finding]:
    """Nothing that could run a model."""
    if not any(runtime.status == RuntimeStatus.USABLE.value for runtime in facts.device.runtimes):
        lines = [line for line in facts.pip_lines.values() if line.startswith("pip ")]
        yield fault(
            "no-runtime", "no inference runtime works on this device: no model can be served",
            "; or: ".join(lines) or "pip install 'mindedge[onnxruntime]'",
        )  # fmt: skip


CHECKS = (onnxruntime_twice, numpy_2_with_tflite_runtime, broken_runtimes, no_runtime)
