"""What every screen is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

from fleet.tui.glyphs import Glyphs


@dataclass(frozen=True)
class Desk:
    """server: its address, for the eye only. now_ms: the wall clock. zone: for times of day, None is this machine's."""

    server: str
    glyphs: Glyphs
    now_ms: Callable[[], int]
    zone: tzinfo | None = None
