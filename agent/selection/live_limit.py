"""How many trials may be alive at once: pure."""

from __future__ import annotations

from edge_contracts.bundle import VariantSpec

RUNTIME_MB = {"onnxruntime": 70, "openvino": 140, "tflite": 70, "stub": 40}
"""Resident memory of a Python process with NumPy and that runtime imported, measured on x86-64 Linux, rounded up."""
OTHER_RUNTIME_MB = 150
MODEL_FACTOR = 3
"""Weights in the file, weights as the runtime packs them, activations."""


def expected_mb(variant: VariantSpec) -> int:
    """What a trial of this variant will take, before it has been measured."""
    model_bytes = max(variant.peak_memory_bytes or 0, MODEL_FACTOR * variant.size_bytes)
    return RUNTIME_MB.get(variant.runtime, OTHER_RUNTIME_MB) + (model_bytes >> 20)


def live_limit(available_mb: int | None, reserve_mb: int, largest_trial_mb: int, wanted: int) -> int:
    """Trials that fit in the available memory less the reserve: at least 1, at most ``wanted``.

    Unknown memory fits all. A limit of 1 means that sessions are opened anew in each round.
    """
    if available_mb is None:
        return max(1, wanted)
    fitting = (available_mb - reserve_mb) // max(1, largest_trial_mb)
    return max(1, min(wanted, fitting))


def trial_memory_limit_mb(available_mb: int | None, reserve_mb: int) -> int | None:
    """What one trial may take before it is ended: all that is free less the reserve; None when that is unknown."""
    return None if available_mb is None else max(64, available_mb - reserve_mb)
