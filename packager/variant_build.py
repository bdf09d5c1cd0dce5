"""One route to its end: convert, find out how the file takes a request, run it, judge it against the source."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edge_contracts.bundle import LeftOut, VariantSpec, VersionRange
from edge_contracts.compatibility import version_in_range
from edge_contracts.parity import Verdict, judge
from edge_contracts.tensor_signature import Signature
from packager import bindings as binding
from packager.bindings import Bindings
from packager.conversion import Heartbeats, convert
from packager.converters.converter import ConversionJob, Converted, Converter
from packager.converters.registry import converter, missing_module
from packager.errors import ConverterError, PackagerError, RuntimeRefused
from packager.file_runtimes import missing_pip_line
from packager.isolated_run import ModelRunner
from packager.recipe import Recipe, Route
from packager.reference import Reference
from packager.samples import Array, Sample
from packager.sources.model import SourceModel
from packager.variant_file import file_facts

PROBE_ROWS = 3
BATCH_DISTANCE = 0.2


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


@dataclass(frozen=True)
class RouteOutcome:
    """Exactly one of ``spec`` (with ``files``) and ``left_out``; ``timings_s`` by stage; ``attempts`` in words."""

    route: Route
    spec: VariantSpec | None = None
    files: dict[str, Path] = field(default_factory=dict)
    left_out: LeftOut | None = None
    timings_s: dict[str, float] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    runtime_version: str = ""
    log: tuple[str, ...] = ()


def build_variant(route: Route, shop: Workshop) -> RouteOutcome:
    """Never raises for what is wrong with this one route: that is a reason to leave it out."""
    timings: dict[str, float] = {}
    try:
        made = converter(route.converter)
        if reason := _cannot(made, route, shop):
            shop.say(f"{route.name}: left out: {reason}")
            return RouteOutcome(route, left_out=LeftOut(name=route.name, reason=reason))
        shop.say(f"{route.name}: converting")
        return _build(made, route, shop, timings)
    except PackagerError as error:
        shop.say(f"{route.name}: left out: {_reason(error)}")
        log = error.last_lines if isinstance(error, ConverterError) else ()
        return RouteOutcome(route, left_out=LeftOut(name=route.name, reason=_reason(error)), timings_s=timings, log=log)


def _cannot(made: Converter, route: Route, shop: Workshop) -> str:
    """Why the route is not even begun, "" when it can be."""
    if made.needs.calibration and shop.measure.calibration_file is None:
        return "static int8 needs calibration data: give --calibration F.npz"
    if (module := missing_module(made)) is not None:
        return f"{module} is not installed: {made.needs.pip_line}"
    if (line := missing_pip_line(route.runtime)) is not None:
        return f"{route.runtime} is not installed, so the variant cannot be checked: {line}"
    return ""


def _build(made: Converter, route: Route, shop: Workshop, timings: dict[str, float]) -> RouteOutcome:
    folder = shop.work_dir / route.name
    folder.mkdir()
    heartbeats = Heartbeats(shop.say, route.name)
    job = ConversionJob(
        converter=route.converter, model=str(shop.source.path), source_format=shop.source.format,
        out=str(folder / "out"), calibration=str(shop.measure.calibration_file or ""),
        fixed_shapes=_fixed_shapes(route, shop), options=route.options, environ=dict(shop.environ),
    )  # fmt: skip
    started = shop.clock()
    converted = convert(made, job, folder, heartbeats)
    timings["convert"] = shop.clock() - started
    entry = folder / "out" / converted.entry
    started = shop.clock()
    runner = ModelRunner(folder, shop.environ, heartbeats)
    bound, verdict, version, notes = check_file(route.runtime, entry, shop, runner)
    timings["check"] = shop.clock() - started
    if not verdict.passed:
        shop.say(f"{route.name}: left out: {verdict.reason}")
        return RouteOutcome(
            route, left_out=LeftOut(name=route.name, reason=verdict.reason), timings_s=timings, tools=converted.tools,
            runtime_version=version,
        )  # fmt: skip
    shop.say(f"{route.name}: {_numbers(verdict)}")
    files = {path.name: path for path in sorted((folder / "out").iterdir())}
    spec = _spec(route, shop, converted, bound, verdict, files, notes)
    return RouteOutcome(route, spec, files, timings_s=timings, tools=converted.tools, runtime_version=version)


def _fixed_shapes(route: Route, shop: Workshop) -> dict[str, list[int]]:
    """The user's, and for accelerators that take nothing else the first golden sample's where dimensions are open."""
    if not route.fixed:
        return dict(shop.recipe.fixed_shapes)
    first = shop.measure.goldens.rows[0]
    sample = {
        spec.name: list(first[spec.name].shape) for spec in shop.signature.inputs
        if any(isinstance(dim, str) for dim in spec.shape)
    }  # fmt: skip
    return {**sample, **shop.recipe.fixed_shapes}


def check_file(
    runtime: str, entry: Path, shop: Workshop, runner: ModelRunner
) -> tuple[Bindings, Verdict, str, list[str]]:
    """Bindings, the worst verdict, the runtime's version, notes. Raises RuntimeRefused."""
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
    return bound, failing or verdicts[-1], answers.version, notes


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


def _spec(
    route: Route, shop: Workshop, converted: Converted, bound: Bindings, verdict: Verdict, files: dict[str, Path],
    notes: list[str],
) -> VariantSpec:  # fmt: skip
    facts = file_facts(route.runtime, files[converted.entry])
    _require_declared(route.runtime, facts.runtime_versions.minimum, shop.recipe.device_runtimes)
    size = sum(path.stat().st_size for path in files.values())
    activations = shop.measure.activation_bytes
    channels_last = any(item.permutation is not None for item in bound.inputs)
    return VariantSpec(
        name=route.name, runtime=route.runtime, target=route.target, precision=route.precision, entry=converted.entry,
        inputs=bound.inputs, outputs=bound.outputs, runtime_versions=facts.runtime_versions, opset=facts.opset,
        ir_version=facts.ir_version, operators=facts.operators, size_bytes=size,
        peak_memory_bytes=None if activations is None else size + activations,
        layout=_layout(bound, channels_last), frozen_dimensions=bound.frozen(shop.signature),
        accuracy=verdict.accuracy, notes=[*converted.notes, *notes],
    )  # fmt: skip


def _require_declared(runtime: str, minimum: str | None, declared: Mapping[str, str]) -> None:
    """The devices' own runtime counts, not this machine's. Raises RuntimeRefused."""
    has = declared.get(runtime)
    if has is not None and minimum is not None and not version_in_range(has, VersionRange(minimum=minimum)):
        raise RuntimeRefused(runtime, f">= {minimum} is needed for it; the target has {has}")


def _layout(bound: Bindings, channels_last: bool) -> str | None:
    if not any(len(item.shape) == 4 for item in bound.inputs):
        return None
    return "NHWC" if channels_last else "NCHW"


def _numbers(verdict: Verdict) -> str:
    accuracy = verdict.accuracy
    return (
        f"{accuracy.metric} {accuracy.value:.4f} (source {accuracy.source_value:.4f}), "
        f"max error {accuracy.max_abs_error:.2g} on {accuracy.samples} samples"
    )


def _reason(error: PackagerError) -> str:
    from packager.errors import ToolchainMissing

    if isinstance(error, ToolchainMissing):
        return f"its converter is not installed: {error.install_line}"
    return str(error)
