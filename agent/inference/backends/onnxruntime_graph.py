"""ONNX Runtime's optimised graph, kept in a file: a session opened from it starts in less than half the time.

The graph is optimised on this device for this device (its layout transformations depend on the CPU), so the file's name
depends on the CPU as well as on the model, the version and the level.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from agent.disk import make_private
from agent.errors import BackendError
from agent.inference.compiled_cache import compiled_key, cpu_identity, prune, touch
from agent.inference.foreign_errors import translated

MAX_MODEL_BYTES = 1 << 30


def open_through_cache(onnxruntime: Any, file: Path, settings: Any, providers: list[Any], cache_dir: Path) -> Any:
    """An InferenceSession on the kept graph where there is one; else on ``file``, keeping the graph for next time.

    ``settings``: SessionOptions, changed here. Raises what InferenceSession raises.
    """
    level = settings.graph_optimization_level
    key = compiled_key(file, {"onnxruntime": onnxruntime.__version__, "level": int(level)}, cpu_identity())
    folder = cache_dir / "onnxruntime"
    kept = folder / f"{key}.onnx"
    if kept.is_file():
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            with translated("onnxruntime", "open the kept graph"):
                session = onnxruntime.InferenceSession(str(kept), settings, providers=providers)
        except BackendError:  # damaged, or of another build: it is only a cache
            kept.unlink(missing_ok=True)
            settings.graph_optimization_level = level
        else:
            touch(kept)
            return session
    return _open_and_keep(onnxruntime, file, settings, providers, kept)


def may_be_kept(file: Path) -> bool:
    """A model in one file of moderate size: a kept graph would not find external data."""
    with contextlib.suppress(OSError):
        alone = sum(1 for _ in file.parent.iterdir()) == 1
        return alone and file.stat().st_size <= MAX_MODEL_BYTES
    return False


def _open_and_keep(onnxruntime: Any, file: Path, settings: Any, providers: list[Any], kept: Path) -> Any:
    building = kept.with_suffix(f".{os.getpid()}.tmp")
    try:
        make_private(kept.parent)
        settings.optimized_model_filepath = str(building)
    except OSError:
        return onnxruntime.InferenceSession(str(file), settings, providers=providers)
    try:
        session = onnxruntime.InferenceSession(str(file), settings, providers=providers)
        with contextlib.suppress(OSError):
            building.replace(kept)
            prune(kept.parent, keep=kept)
        return session
    finally:
        building.unlink(missing_ok=True)
