"""Where models, bundles and environments of the benchmarks are kept: nothing of it is ever committed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "MINDEDGE_BENCHMARKS"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """MINDEDGE_BENCHMARKS, else ``mindedge/benchmarks`` in the user's cache folder; made when it is not there."""
    chosen = environ.get(VARIABLE)
    base = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(chosen) if chosen else base / "mindedge" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
