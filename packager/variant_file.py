"""Facts read from a variant's own file: what runtime versions open it, and its layout."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from edge_contracts.bundle import VersionRange
from packager.sources.onnx_versions import OLDEST, minimum_onnxruntime

OPENVINO_OPSETS = {9: "2022.3", 10: "2023.0", 11: "2023.1", 12: "2023.2", 13: "2024.0", 14: "2024.3", 15: "2024.5",
                   16: "2025.1"}  # fmt: skip
"""Operator set -> the version with all of it, rounded up: sets are finished a release after they are begun.
Source: https://docs.openvino.ai, "Available operation sets"."""
OPENVINO_OLDEST = "2022.1"
_LAYER_OPSET = re.compile(rb'version="opset(\d+)"')


@dataclass(frozen=True)
class FileFacts:
    """What the file says of itself."""

    runtime_versions: VersionRange
    opset: int | None = None
    ir_version: int | None = None
    operators: list[str] = field(default_factory=list)


def file_facts(runtime: str, path: Path) -> FileFacts:
    """Read the variant's entry file."""
    if runtime == "onnxruntime":
        return _onnx(path)
    if runtime == "openvino":
        return _openvino(path)
    return FileFacts(VersionRange())


def _onnx(path: Path) -> FileFacts:
    import onnx

    from packager.sources.onnx_graph import default_opset, operators

    model = onnx.load(str(path), load_external_data=False)
    opset, ir_version = default_opset(model) or 1, int(model.ir_version)
    minimum = minimum_onnxruntime(ir_version, opset) or OLDEST
    return FileFacts(VersionRange(minimum=minimum), opset, ir_version, operators(model))


def _openvino(path: Path) -> FileFacts:
    if path.suffix != ".xml":
        return FileFacts(VersionRange(minimum=OPENVINO_OLDEST))
    content = path.read_bytes()
    opset = max((int(match) for match in _LAYER_OPSET.findall(content)), default=1)
    newest = max(OPENVINO_OPSETS)
    minimum = OPENVINO_OLDEST if opset < min(OPENVINO_OPSETS) else OPENVINO_OPSETS.get(opset, OPENVINO_OPSETS[newest])
    kinds = {match.decode() for match in re.findall(rb'<layer [^>]*type="(\w+)"', content)}
    return FileFacts(VersionRange(minimum=minimum), opset, None, sorted(kinds))
