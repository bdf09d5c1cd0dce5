"""A model as it was brought in: read, checked, and described; still in its own format."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from edge_contracts.tensor_signature import Signature


@dataclass(frozen=True)
class SourceModel:
    """``path``: the file given. ``files``: every file it is made of, itself first. ``digest`` covers them all.

    ``runtime`` runs it as it is and is the reference for every variant. ``weight_bytes`` counts all of them.
    """

    path: Path
    format: str
    runtime: str
    files: list[Path]
    digest: str
    signature: Signature
    weight_bytes: int
    opset: int | None = None
    ir_version: int | None = None
    operators: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
