"""Inference answers of the Open Inference Protocol v2: tensors to a body, JSON, binary or mixed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.errors import RequestRefused
from agent.serving.json_tensors import json_values
from agent.serving.protocol import InferenceRequest
from edge_contracts.errors import MalformedTensor
from edge_contracts.inference_wire import Tensor

_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True)
class InferenceAnswer:
    """A JSON part and the raw tensors after it. ``header_length`` is None when there is no binary part."""

    json_part: bytes
    binary_parts: list[bytes | memoryview]

    @property
    def header_length(self) -> int | None:
        """For ``Inference-Header-Content-Length``."""
        return len(self.json_part) if self.binary_parts else None


def format_answer(model: str, version: str, request: InferenceRequest, outputs: Sequence[Tensor]) -> InferenceAnswer:
    """The answer to ``request``; ``outputs`` holds the wanted outputs in the order they were asked for.

    An output that JSON cannot carry (FP16, BF16, BYTES that are not UTF-8, NaN, infinity) is sent in binary if the
    request used the binary extension, else RequestRefused (400) names it.
    """
    entries: list[dict[str, Any]] = []
    binary: list[bytes | memoryview] = []
    for tensor, wanted in zip(outputs, request.outputs, strict=True):
        entry: dict[str, Any] = {"name": tensor.name, "datatype": tensor.dtype, "shape": tensor.shape}
        values = None if wanted.binary else _json_form(tensor, request.takes_binary)
        if values is None:
            entry["parameters"] = {"binary_data_size": len(tensor.data)}
            binary.append(tensor.data)
        else:
            entry["data"] = values
        entries.append(entry)
    document: dict[str, Any] = {"model_name": model, "model_version": version}
    if request.request_id:
        document["id"] = request.request_id
    document["outputs"] = entries
    return InferenceAnswer(_ENCODER.encode(document), binary)


def format_error(reason: str) -> bytes:
    """The body of every error: ``{"error": reason}``."""
    return _ENCODER.encode({"error": reason})


def _json_form(tensor: Tensor, takes_binary: bool) -> list[Any] | msgspec.Raw | None:
    """The tensor's values, or None when it must go in binary."""
    try:
        return json_values(tensor.name, tensor.dtype, tensor.shape, tensor.data)
    except MalformedTensor as error:
        if takes_binary:
            return None
        raise RequestRefused(400, f"output {tensor.name!r} {error.reason.removeprefix('holds ')}: ask for it with "
                             'parameters {"binary_data_output": true}') from error  # fmt: skip
