"""Backends by name: the built-in ones and those that others add through the entry point group ``mindedge.backends``.

An entry point names a callable that takes ``cache_dir: Path | None`` by keyword and returns a Backend; its name is the
runtime's name in VariantSpec. A driver's module is imported only when its backend is asked for, and imports its runtime
only inside ``fact`` and ``open``.

The stub backend is for tests: it exists only where MINDEDGE_STUB_BACKEND=1 is in the environment.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from agent.errors import BackendError
from agent.inference.backend import Backend

ENTRY_POINT_GROUP = "mindedge.backends"
STUB_VARIABLE = "MINDEDGE_STUB_BACKEND"
STUB_NAME = "stub"
BUILTIN = {
    "onnxruntime": "agent.inference.backends.onnxruntime:OnnxRuntimeBackend",
    "openvino": "agent.inference.backends.openvino:OpenVinoBackend",
    "tflite": "agent.inference.backends.tflite:TfliteBackend",
}
_STUB = "agent.inference.backends.stub:StubBackend"


def backend_names(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Built-in names first, then those of entry points, the stub last where it is enabled."""
    names = [*BUILTIN, *(point for point in _entry_points() if point not in BUILTIN and point != STUB_NAME)]
    return [*names, STUB_NAME] if _stub_enabled(environ) else names


def backend(name: str, *, cache_dir: Path | None = None, environ: Mapping[str, str] = os.environ) -> Backend:
    """The backend of that name. ``cache_dir``: where it may keep compiled models; None: it keeps none.

    Raises BackendError for an unknown name or an entry point that cannot be imported.
    """
    if name == STUB_NAME and _stub_enabled(environ):
        return _built_in(_STUB)(cache_dir=cache_dir)
    if name in BUILTIN:
        return _built_in(BUILTIN[name])(cache_dir=cache_dir)
    point = None if name == STUB_NAME else _entry_points().get(name)
    if point is None:
        raise BackendError(name, f"is no known backend (known: {', '.join(backend_names(environ))})")
    try:
        return cast(Backend, point()(cache_dir=cache_dir))
    except Exception as error:  # a foreign plug-in may raise anything while it is imported or made
        raise BackendError(name, f"the plug-in cannot be loaded: {error!r}") from error


def _stub_enabled(environ: Mapping[str, str]) -> bool:
    return environ.get(STUB_VARIABLE) == "1"


def _built_in(path: str) -> Callable[..., Backend]:
    module, _, name = path.partition(":")
    return cast("Callable[..., Backend]", getattr(importlib.import_module(module), name))


def _entry_points() -> dict[str, Callable[[], Callable[..., object]]]:
    from importlib.metadata import entry_points  # a twentieth of a second that an import probe of a built-in one saves

    return {point.name: point.load for point in entry_points(group=ENTRY_POINT_GROUP)}
