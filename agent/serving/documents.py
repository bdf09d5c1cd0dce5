"""The JSON documents of the Open Inference Protocol beside inference: metadata, configuration, statistics. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent.serving.control import ServedModel
from agent.serving.live_model import LiveModel
from edge_contracts._version import __version__
from edge_contracts.bundle import VariantSpec
from edge_contracts.tensor_signature import BYTES, TensorSpec

EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository", "statistics"]
_PLATFORM = {"onnxruntime": "onnxruntime_onnx", "openvino": "openvino_ir", "tflite": "tflite_flatbuffer"}


def server_metadata() -> dict[str, Any]:
    """``GET /v2``."""
    return {"name": "mindie", "version": __version__, "extensions": EXTENSIONS}


def model_metadata(live: LiveModel, variant: VariantSpec, versions: list[str]) -> dict[str, Any]:
    """``GET /v2/models/NAME``."""
    return {
        "name": live.served.name,
        "versions": versions,
        "platform": _PLATFORM.get(variant.runtime, variant.runtime),
        "inputs": [_tensor(spec) for spec in live.signature.inputs],
        "outputs": [_tensor(spec) for spec in live.signature.outputs],
    }


def model_configuration(live: LiveModel, variant: VariantSpec, max_batch: int) -> dict[str, Any]:
    """``GET /v2/models/NAME/config``: Triton's field names where it has them, ours under ``parameters``."""
    served = live.served
    about = {
        "digest": served.digest,
        "variant": served.variant,
        "precision": variant.precision,
        "target": variant.target,
        "provider": live.loaded.provider if live.loaded else "",
        "signed": str(served.signed).lower(),
        **{f"option.{name}": str(value) for name, value in served.options.items()},
        **_choice(served),
    }
    document: dict[str, Any] = {
        "name": served.name,
        "platform": _PLATFORM.get(variant.runtime, variant.runtime),
        "backend": variant.runtime,
        "max_batch_size": 0,
        "input": [_configured(spec) for spec in live.signature.inputs],
        "output": [_configured(spec) for spec in live.signature.outputs],
        "parameters": {name: {"string_value": value} for name, value in about.items()},
    }
    if max_batch > 1:
        document["parameters"]["dynamic_batching.max_batch"] = {"string_value": str(max_batch)}
    return document


def model_statistics(live: LiveModel) -> dict[str, Any]:
    """One entry of ``GET /v2/models/NAME/stats``; durations in nanoseconds, as Triton has them."""
    statistics = live.statistics
    total_us, done = statistics.total_us, statistics.successes
    return {
        "name": statistics.name,
        "version": statistics.version,
        "last_inference": statistics.last_success_ms,
        "inference_count": statistics.rows,
        "execution_count": round(statistics.executions),
        "inference_stats": {
            "success": _duration(done, total_us["total"]),
            "fail": _duration(statistics.failures, statistics.failed_us),
            "queue": _duration(done, total_us["queue"]),
            "compute_input": _duration(done, total_us["input"]),
            "compute_infer": _duration(done, total_us["infer"]),
            "compute_output": _duration(done, total_us["output"]),
        },
        "batch_stats": [],
    }


def repository_index(lives: Iterable[LiveModel], *, ready_only: bool) -> list[dict[str, Any]]:
    """``POST /v2/repository/index``."""
    return [
        {
            "name": live.served.name,
            "version": live.served.version,
            "state": "READY" if live.is_ready else "UNAVAILABLE",
            "reason": live.failure or "",
        }
        for live in lives
        if live.is_ready or not ready_only
    ]


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.dtype, "shape": spec.wire_shape()}


def _configured(spec: TensorSpec) -> dict[str, Any]:
    data_type = "TYPE_STRING" if spec.dtype == BYTES else f"TYPE_{spec.dtype}"
    return {"name": spec.name, "data_type": data_type, "dims": spec.wire_shape()}


def _duration(count: int, total_us: float) -> dict[str, int]:
    return {"count": count, "ns": round(total_us * 1e3)}


def _choice(served: ServedModel) -> dict[str, str]:
    evidence = served.evidence
    if evidence is None:
        return {}
    about = {"choice.why": evidence.why}
    if evidence.ratio_vs_onnxruntime_default is not None:
        about["choice.ratio_vs_onnxruntime_default"] = f"{evidence.ratio_vs_onnxruntime_default:.3f}"
    return about
