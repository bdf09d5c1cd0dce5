"""What the source model answers: the measure of every variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge_contracts.tensor_signature import Signature
from packager.errors import ModelRefused, RuntimeRefused
from packager.isolated_run import Answers, ModelRunner
from packager.samples import Sample
from packager.sources.model import SourceModel


@dataclass(frozen=True)
class Reference:
    """Rows and the source's answers. ``batched``: two rows as one request with its answer, where the source can."""

    rows: list[Sample]
    answers: list[Sample]
    labels: list[int] | None
    batched: tuple[Sample, Sample] | None
    batch_axis: str | None


def run_source(source: SourceModel, runner: ModelRunner, rows: Sequence[Sample]) -> Answers:
    """The source's answers in the signature's names. Raises RuntimeRefused."""
    to_file = source.file_names
    from_file = {file: name for name, file in to_file.items()}
    asked = [{to_file.get(name, name): array for name, array in row.items()} for row in rows]
    answers = runner.run(source.runtime, source.path, asked)
    named = [{from_file.get(name, name): array for name, array in answer.items()} for answer in answers.rows]
    return replace(answers, rows=named)


def ask(
    source: SourceModel, signature: Signature, runner: ModelRunner, rows: Sequence[Sample], labels: list[int] | None
) -> Reference:
    """Run the source over the rows. Raises ModelRefused when it does not load, run, or answer with numbers."""
    axis = batch_axis(signature)
    can_join = axis and len(rows) > 1 and not source.stateful
    pair = joined(signature, str(axis), rows[:2]) if can_join else None
    try:
        answers = run_source(source, runner, [*rows, *([pair] if pair else [])])
        for index in range(len(rows)):
            if index in answers.failures:
                raise ModelRefused(source.origin, f"the model fails on sample {index}: {answers.failures[index]}")
    except RuntimeRefused as error:
        raise ModelRefused(source.origin, str(error)) from error
    batched = (pair, answers.rows[-1]) if pair and len(rows) not in answers.failures else None
    given = answers.rows[: len(rows)]
    if given and not any(_has_numbers(answer) for answer in given):
        raise ModelRefused(source.origin, "answers NaN to every sample: its weights or the samples are damaged")
    return Reference(list(rows), given, labels, batched, axis)


def batch_axis(signature: Signature) -> str | None:
    """The name of the leading symbolic dimension that inputs and outputs share, if there is one."""
    leading = [spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], str)]
    shared = [dim for dim in leading if all(spec.shape[:1] == [dim] for spec in signature.outputs)]
    return str(shared[0]) if shared else None


def joined(signature: Signature, axis: str, rows: Sequence[Sample]) -> Sample:
    """Rows as one request along the batch axis; inputs without it are the first row's."""
    return {
        spec.name: np.concatenate([row[spec.name] for row in rows]) if spec.shape[:1] == [axis] else rows[0][spec.name]
        for spec in signature.inputs
    }


def _has_numbers(answer: Sample) -> bool:
    return all(array.dtype.kind != "f" or bool(np.isfinite(array).any()) or not array.size for array in answer.values())
