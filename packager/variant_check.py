"""Is a variant's file right? How it takes a request, what it answers, how far that is from the source's answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_contracts.parity import Verdict, judge
from edge_contracts.tensor_signature import Signature
from packager import bindings as binding
from packager.bindings import Bindings
from packager.errors import RuntimeRefused
from packager.isolated_run import ModelRunner
from packager.reference import Reference
from packager.samples import Array, Sample
from packager.workshop import Workshop

PROBE_ROWS = 3
BATCH_DISTANCE = 0.2


@dataclass(frozen=True)
class Checked:
    """``bindings`` of the file, the worst ``verdict``, the ``version`` of the runtime that ran it."""

    bindings: Bindings
    verdict: Verdict
    version: str
    notes: list[str]


def check_file(runtime: str, entry: Path, shop: Workshop, runner: ModelRunner) -> Checked:
    """Raises RuntimeRefused when the file does not load, run, or take requests in any arrangement."""
    bound = find_bindings(runtime, entry, shop.signature, shop.measure.goldens, runner)
    references = [shop.measure.goldens, *([shop.measure.calibration] if shop.measure.calibration else [])]
    rows = [row for reference in references for row in reference.rows]
    batched = shop.measure.goldens.batched
    asked = [*rows, *([batched[0]] if batched else [])]
    answers = runner.run(runtime, entry, [bound.to_file(shop.signature, row) for row in asked])
    notes: list[str] = []
    if batched and not bound.frozen(shop.signature):
        bound, notes = _without_batch(bound, shop, answers.rows[-1], batched[1])
    failed = sorted(index for index in answers.failures if index < len(rows))
    if failed:
        raise RuntimeRefused(runtime, f"cannot run sample {failed[0]}: {answers.failures[failed[0]]}")
    given = [bound.from_file(shop.signature, answer) for answer in answers.rows[: len(rows)]]
    verdicts: list[Verdict] = []
    for reference in references:
        part, given = given[: len(reference.rows)], given[len(reference.rows) :]
        verdicts.append(judge(reference.answers, part, reference.labels, shop.recipe.max_drop))
    failing = next((verdict for verdict in verdicts if not verdict.passed), None)
    return Checked(bound, failing or verdicts[-1], answers.version, notes)


def find_bindings(runtime: str, entry: Path, signature: Signature, goldens: Reference, runner: ModelRunner) -> Bindings:
    """How the file takes a request. Raises RuntimeRefused."""
    described = runner.run(runtime, entry, [])
    names = {tensor.name for tensor in [*described.inputs, *described.outputs]}
    if {spec.name for spec in [*signature.inputs, *signature.outputs]} <= names and runtime != "tflite":
        return binding.by_name(runtime, signature, described.inputs, described.outputs)
    rows, expected = goldens.rows[:PROBE_ROWS], goldens.answers[:PROBE_ROWS]
    choices = [Bindings(inputs, []) for inputs in binding.arrangements(signature, described.inputs)]
    asked = [choice.to_file(signature, row) for choice in choices for row in rows]
    answers = runner.run(runtime, entry, asked)
    best: tuple[float, Bindings] | None = None
    for position, choice in enumerate(choices):
        part = answers.rows[position * len(rows) : (position + 1) * len(rows)]
        if not all(part):
            continue
        outputs, distance = binding.nearest_outputs(signature, described.outputs, expected, part)
        if best is None or distance < best[0] - binding.TIE:
            best = (distance, Bindings(choice.inputs, outputs))
    if best is None:
        reason = next(iter(answers.failures.values()), "no arrangement of its tensors fits the source's")
        raise RuntimeRefused(runtime, f"cannot run it: {reason}")
    if best[0] > binding.MAX_DISTANCE:
        raise RuntimeRefused(runtime, f"answers far from the source's in every layout (1 - cosine is {best[0]:.3f})")
    return best[1]


def _without_batch(bound: Bindings, shop: Workshop, answer: Sample, expected: Sample) -> tuple[Bindings, list[str]]:
    """A file that is wrong for two samples at once is declared for one at a time: the device then splits."""
    if answer:
        got = bound.from_file(shop.signature, answer)
        if all(_alike(want, got[name]) for name, want in expected.items()):
            return bound, []
    axis = shop.measure.goldens.batch_axis
    assert axis is not None
    note = "takes one sample at a time: it is wrong for two in one request"
    return binding.frozen_to_one_sample(bound, shop.signature, axis), [note]


def _alike(want: Array, got: Array) -> bool:
    if want.shape != got.shape:
        return False
    if want.dtype.kind != "f":
        return True
    a, b = np.nan_to_num(want.astype(np.float64).ravel()), np.nan_to_num(got.astype(np.float64).ravel())
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return norm == 0 or 1 - float(a @ b) / norm <= BATCH_DISTANCE
