"""What every route of one build shares."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge_contracts.tensor_signature import Signature
from packager.recipe import Recipe
from packager.reference import Reference
from packager.sources.model import SourceModel


@dataclass(frozen=True)
class Measure:
    """Against what a variant is judged: the goldens, and the calibration where no goldens were given."""

    goldens: Reference
    calibration: Reference | None
    calibration_file: Path | None
    activation_bytes: int | None

    @property
    def weightiest(self) -> Reference:
        """The one whose numbers the bundle tells."""
        return self.calibration or self.goldens


@dataclass(frozen=True)
class Workshop:
    """What every route of a build shares."""

    source: SourceModel
    signature: Signature
    measure: Measure
    recipe: Recipe
    work_dir: Path
    environ: Mapping[str, str]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    canceled: threading.Event = field(default_factory=threading.Event)
