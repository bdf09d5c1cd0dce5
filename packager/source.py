"""Read a model of any known format, or refuse it in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from packager.errors import ModelRefused
from packager.sources.content import ONNX, TFLITE, source_format
from packager.sources.model import SourceModel

READABLE = (ONNX, TFLITE)


def read_source(path: Path) -> SourceModel:
    """Raises ModelRefused; OSError passes. Nothing of the model is executed."""
    kind = source_format(path)
    reader = _readers().get(kind)
    if reader is None:
        raise ModelRefused(path, f"is {kind}, which cannot be packed yet; there is {', '.join(READABLE)}")
    return reader(path)


def _readers() -> dict[str, Callable[[Path], SourceModel]]:
    from packager.sources.onnx import read_onnx
    from packager.sources.tflite import read_tflite

    return {ONNX: read_onnx, TFLITE: read_tflite}
