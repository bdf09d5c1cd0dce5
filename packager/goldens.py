"""The samples that travel in the bundle: the user's, or seeded ones within a range that the model tolerates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_contracts.golden import Golden, encode_goldens
from edge_contracts.parity import to_tensor
from edge_contracts.tensor_signature import BYTES, NUMPY_NAME, Signature, TensorSpec
from packager.errors import ModelRefused, RuntimeRefused
from packager.isolated_run import ModelRunner
from packager.reference import Reference, run_source
from packager.samples import Array, Sample
from packager.sources.model import SourceModel

MIN_GOLDENS = 8
STATE_REPEATS = 32
MAX_GOLDEN_BYTES = 64 * 1024 * 1024
SEED = 20240229
IMAGE_SIZES = ((224, 48, 64, 32), (16, 100, 128, 256), (320, 512, 640))
SIZES = ((32, 48, 64, 16), (1, 8, 100, 128, 224, 256), (320, 512, 576, 640, 1024))
"""What an open dimension is tried with, group after group: one run of the model for each group."""
FLOAT_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
INTEGER_LIMITS = (100, 9, 1)
MAX_OPEN = 3
SCALARS = (16000, 1, 100, 0)
WORDS = (b"", b"edge", b"Mind Edge", "größe".encode(), b"42")


@dataclass(frozen=True)
class SeedPlan:
    """How to draw an input: ``sizes`` of open dimensions, ranges by dtype kind, one value for integer scalars."""

    sizes: Mapping[str, int]
    low: float
    high: float
    integer_limit: int
    scalar: int
    ranges: Mapping[str, tuple[float, float]]


def seeded_rows(
    source: SourceModel, signature: Signature, runner: ModelRunner, examples: Sequence[Sample]
) -> tuple[list[Sample], list[str]]:
    """MIN_GOLDENS rows that the model answers with numbers, and notes.

    ``examples`` (calibration) lend their shapes and each input's range, never their values. Raises ModelRefused when
    the model tolerates nothing that was tried.
    """
    if source.stateful:
        return _settled_rows(source, signature, runner, examples)
    failures: list[str] = []
    constant: list[Sample] | None = None
    for plans in _plans(signature, examples):
        tried = [[draw(signature, plan, index) for index in range(MIN_GOLDENS)] for plan in plans]
        probes = [row for rows in tried for row in rows[:2]]
        try:
            answers = run_source(source, runner, probes)
        except RuntimeRefused as error:
            raise ModelRefused(source.origin, str(error)) from error
        failures += list(answers.failures.values())
        for position, rows in enumerate(tried):
            first, second = answers.rows[2 * position : 2 * position + 2]
            if not (_is_usable(first) and _is_usable(second)):
                continue
            if _differ(first, second):
                return rows, []
            constant = constant or rows
    if constant is not None:
        return constant, ["the model gives the same answer to every seeded sample; --golden F.npz proves more"]
    said = f" (the first said: {failures[0]})" if failures else ""
    raise ModelRefused(source.origin, f"tolerates none of the seeded inputs that were tried; give --golden F.npz{said}")


def _settled_rows(
    source: SourceModel, signature: Signature, runner: ModelRunner, examples: Sequence[Sample]
) -> tuple[list[Sample], list[str]]:
    """A model with state answers by what came before: only a sample that it answers the same at each repeat proves."""
    silence = {
        spec.name: np.zeros([1 if isinstance(dim, str) else dim for dim in spec.shape], NUMPY_NAME[spec.dtype])
        for spec in signature.inputs
    }
    for row in [silence, *examples[:3]]:
        answers = run_source(source, runner, [row] * STATE_REPEATS).rows
        if answers and all(_is_usable(answer) and not _differ(answers[0], answer) for answer in answers):
            return [row] * MIN_GOLDENS, [
                "keeps state between calls: its goldens are one sample that leaves it as it is"
            ]
    raise ModelRefused(
        source.origin, "keeps state between calls, and no sample was found that it answers the same each time; its "
        "answers cannot be proven: export it with its state as inputs and outputs",
    )  # fmt: skip


def draw(signature: Signature, plan: SeedPlan, index: int) -> Sample:
    """One row; the same plan and index give the same row everywhere."""
    rng = np.random.Generator(np.random.PCG64([SEED, index]))
    return {spec.name: _tensor(spec, plan, rng) for spec in signature.inputs}


def encode(name: str, reference: Reference) -> tuple[bytes, int]:
    """The goldens blob, and how many rows are in it: all, or as many as fit MAX_GOLDEN_BYTES, at least MIN_GOLDENS."""
    goldens: list[Golden] = []
    size = 0
    for row, answer in zip(reference.rows, reference.answers, strict=True):
        golden = Golden([to_tensor(k, v) for k, v in row.items()], [to_tensor(k, v) for k, v in answer.items()])
        size += sum(len(tensor.data) for tensor in [*golden.inputs, *golden.outputs])
        if size > MAX_GOLDEN_BYTES and len(goldens) >= MIN_GOLDENS:
            break
        goldens.append(golden)
    return encode_goldens(goldens, model=name), len(goldens)


def _plans(signature: Signature, examples: Sequence[Sample]) -> Iterator[list[SeedPlan]]:
    open_dims = sorted({dim for spec in signature.inputs for dim in spec.shape if isinstance(dim, str)})
    batch = {spec.shape[0] for spec in signature.inputs if spec.shape and isinstance(spec.shape[0], str)}
    ranges = _ranges(examples)
    sizes = IMAGE_SIZES if any(_is_open_image(spec) for spec in signature.inputs) else SIZES
    groups: Sequence[Sequence[int]] = sizes if set(open_dims) - batch else ((1,),)
    if examples:
        yield [_plan(_sizes_of(signature, examples[0]), floats, limit, scalar, ranges) for floats, limit, scalar in _kinds(signature)]  # noqa: E501  # fmt: skip
        return
    for group in groups:
        yield [
            _plan({dim: 1 if dim in batch | ones else size for dim in open_dims}, floats, limit, scalar, ranges)
            for size in group for ones in _held_at_one(set(open_dims) - batch)
            for floats, limit, scalar in _kinds(signature)
        ]  # fmt: skip
    if len(batch) and set(open_dims) == batch:
        for group in SIZES:  # a leading dimension that is no batch, a length say
            yield [_plan(dict.fromkeys(open_dims, size), floats, limit, scalar, ranges)
                   for size in group for floats, limit, scalar in _kinds(signature)]  # fmt: skip


def _is_open_image(spec: TensorSpec) -> bool:
    return len(spec.shape) == 4 and sum(isinstance(dim, str) for dim in spec.shape[1:]) > 1


def _held_at_one(dims: set[str]) -> list[set[str]]:
    """Open dimensions that may be a batch without saying so (a state's, say): none, then one, then two of them."""
    counts = range(max(1, min(len(dims), MAX_OPEN)))
    return [set(some) for count in counts for some in itertools.combinations(sorted(dims), count)]


def _plan(
    sizes: Mapping[str, int], floats: tuple[float, float], limit: int, scalar: int, ranges: Mapping[str, Any]
) -> SeedPlan:
    return SeedPlan(sizes, *floats, limit, scalar, ranges)


def _kinds(signature: Signature) -> list[tuple[tuple[float, float], int, int]]:
    """Only the choices that this signature's dtypes make a difference to."""
    has_float = any(spec.dtype.startswith(("FP", "BF")) for spec in signature.inputs)
    has_integer = any("INT" in spec.dtype and spec.shape for spec in signature.inputs)
    has_scalar = any("INT" in spec.dtype and not spec.shape for spec in signature.inputs)
    return list(itertools.product(
        FLOAT_RANGES if has_float else FLOAT_RANGES[:1],
        INTEGER_LIMITS if has_integer else INTEGER_LIMITS[:1],
        SCALARS if has_scalar else SCALARS[:1],
    ))  # fmt: skip


def _ranges(examples: Sequence[Sample]) -> dict[str, tuple[float, float]]:
    """Lowest and highest value of each numeric input."""
    names = examples[0].keys() if examples else ()
    numeric = [name for name in names if examples[0][name].dtype.kind in "fiu" and examples[0][name].size]
    return {
        name: (min(float(row[name].min()) for row in examples), max(float(row[name].max()) for row in examples))
        for name in numeric
    }


def _sizes_of(signature: Signature, row: Sample) -> dict[str, int]:
    return {
        dim: size for spec in signature.inputs for dim, size in zip(spec.shape, row[spec.name].shape, strict=True)
        if isinstance(dim, str)
    }  # fmt: skip


def _tensor(spec: TensorSpec, plan: SeedPlan, rng: np.random.Generator) -> Array:
    shape = tuple(plan.sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape)
    uniform = rng.random(shape)
    if spec.dtype == BYTES:
        words = np.empty(uniform.size, dtype=object)
        words[:] = [WORDS[int(value * len(WORDS))] for value in np.atleast_1d(uniform).ravel()]
        return words.reshape(shape)
    dtype = np.dtype(NUMPY_NAME[spec.dtype])
    if dtype.kind == "b":
        return np.asarray(uniform < 0.5)
    if dtype.kind in "iu":
        if spec.name in plan.ranges:
            low, high = plan.ranges[spec.name]
            return np.asarray(np.floor(low + uniform * (high - low + 1)).clip(low, high).astype(dtype))
        if not spec.shape:
            return np.asarray(plan.scalar).astype(dtype)
        limit = min(plan.integer_limit, np.iinfo(dtype).max) if "mask" not in spec.name.lower() else 1
        return np.asarray(np.floor(uniform * (limit + 1)).astype(dtype))
    low, high = plan.ranges.get(spec.name, (plan.low, plan.high))
    return np.asarray((low + uniform * (high - low)).astype(dtype))


def _is_usable(answer: Sample) -> bool:
    return bool(answer) and all(a.dtype.kind != "f" or bool(np.isfinite(a).all()) for a in answer.values())


def _differ(first: Sample, second: Sample) -> bool:
    return any(a.shape != second[name].shape or not np.array_equal(a, second[name]) for name, a in first.items())
