"""A model as it was brought in: read, checked, and described; still in its own format."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from edge_contracts.tensor_signature import Signature


@dataclass(frozen=True)
class SourceModel:
    """``path``: the file to read. ``files``: every file it is made of, itself first. ``digest`` covers them all.

    ``origin``: the file that the user named, for messages; ``path`` may be a copy of it.

    ``runtime`` runs it as it is and is the reference for every variant. ``weight_bytes`` counts all of them.
    ``file_names``: the file's own names of tensors that the signature names otherwise.
    ``nodes``: of the graph, constants aside; 0 where they were not counted.
    ``precision``: fp32, fp16 or int8, as most weights are stored. ``stateful``: it keeps state between calls.
    """

    origin: Path
    path: Path
    format: str
    runtime: str
    files: list[Path]
    digest: str
    signature: Signature
    weight_bytes: int
    precision: str = "fp32"
    stateful: bool = False
    file_names: dict[str, str] = field(default_factory=dict)
    opset: int | None = None
    ir_version: int | None = None
    operators: list[str] = field(default_factory=list)
    nodes: int = 0
    notes: list[str] = field(default_factory=list)
