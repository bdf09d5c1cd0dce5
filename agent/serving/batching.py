"""Dynamic batching: which waiting requests run together, and for how long to wait for more. Pure.

Only where it cannot change an answer: every input and output of the signature leads with the same symbolic dimension.
Requests run together when their other dimensions agree. A full batch runs at once; with less, the oldest request waits
until the engine is idle and at most ``max_delay_ns`` then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agent.serving.engine_wire import Run
from edge_contracts.tensor_signature import Signature


@dataclass(frozen=True)
class BatchRule:
    """At most ``max_rows`` rows together, waiting at most ``max_delay_ns`` for them."""

    max_rows: int
    max_delay_ns: int


class Waiting(Protocol):
    """What is batched."""

    @property
    def run(self) -> Run:
        """The request as the engine gets it."""

    @property
    def parsed_ns(self) -> int:
        """Since when it waits."""

    @property
    def runs_alone(self) -> bool:
        """Not to be run together with others: an engine died while it was there."""

    def rows(self) -> int:
        """Its share of a batch."""


W = TypeVar("W", bound=Waiting)


def batch_dimension(signature: Signature) -> str | None:
    """The symbolic dimension that leads every input and output, or None: then requests are never run together."""
    leading = {spec.shape[0] if spec.shape else 0 for spec in [*signature.inputs, *signature.outputs]}
    dimension = leading.pop() if len(leading) == 1 and signature.inputs else None
    if not isinstance(dimension, str):
        return None
    others = {dim for spec in [*signature.inputs, *signature.outputs] for dim in spec.shape[1:]}
    return None if dimension in others else dimension


def gather(queue: Sequence[W], rule: BatchRule, now_ns: int, *, engine_is_idle: bool) -> tuple[list[W], float | None]:
    """The requests at the head of the queue to run together now, or none and the seconds until it is time.

    While the engine works, a batch that is not full waits for it: it costs nothing, and the batch may grow.
    """
    batch: list[W] = []
    rows = 0
    for waiting in queue:
        fits = rows + waiting.rows() <= rule.max_rows and not waiting.runs_alone
        if batch and not (fits and _inner(waiting) == _inner(batch[0])):
            return batch, None
        batch.append(waiting)
        rows += waiting.rows()
        if rows >= rule.max_rows or waiting.runs_alone:
            return batch, None
    if not batch or not engine_is_idle:
        return [], None
    left_ns = batch[0].parsed_ns + rule.max_delay_ns - now_ns
    return (batch, None) if left_ns <= 0 else ([], left_ns / 1e9)


def _inner(waiting: Waiting) -> list[tuple[int, ...]]:
    return [part.shape[1:] for part in waiting.run.inputs]


def batch_sizes(max_rows: int) -> list[int]:
    """Every leading size that may come, to be run once before serving."""
    return list(range(1, max_rows + 1))
