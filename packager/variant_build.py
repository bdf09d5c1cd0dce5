"""One route to its end: convert, find out how the file takes a request, run it, judge it against the source; an int8
variant that fails its gate is repaired before it is given up (packager.repair)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edge_contracts.bundle import LeftOut, VariantSpec, VersionRange
from edge_contracts.compatibility import version_in_range
from edge_contracts.parity import Verdict
from packager.bindings import Bindings
from packager.conversion import Heartbeats, convert
from packager.converters.converter import ConversionJob, Converted, Converter
from packager.converters.registry import converter, missing_module
from packager.errors import ConverterError, PackagerError, RuntimeRefused, ToolchainMissing
from packager.file_runtimes import missing_pip_line
from packager.isolated_run import ModelRunner
from packager.recipe import Route
from packager.repair import Repair, max_repairs, repairs
from packager.variant_check import Checked, check_file
from packager.variant_file import file_facts
from packager.workshop import Workshop


@dataclass(frozen=True)
class Attempt:
    """One conversion with one set of options, and how it was judged."""

    options: dict[str, str]
    folder: Path
    converted: Converted
    checked: Checked

    def files(self) -> dict[str, Path]:
        """The files that were made, by name."""
        return {path.name: path for path in sorted((self.folder / "out").iterdir())}


@dataclass(frozen=True)
class RouteOutcome:
    """Exactly one of ``spec`` (with ``files``) and ``left_out``. ``timings_s`` by stage. ``tried``: each attempt in
    words, where there was more than one."""

    route: Route
    spec: VariantSpec | None = None
    files: dict[str, Path] = field(default_factory=dict)
    left_out: LeftOut | None = None
    timings_s: dict[str, float] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    runtime_version: str = ""
    tried: list[str] = field(default_factory=list)
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
        reason = (
            f"its converter is not installed: {error.install_line}"
            if isinstance(error, ToolchainMissing)
            else str(error)
        )
        shop.say(f"{route.name}: left out: {reason}")
        log = error.last_lines if isinstance(error, ConverterError) else ()
        return RouteOutcome(route, left_out=LeftOut(name=route.name, reason=reason), timings_s=timings, log=log)


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
    first = _attempt(made, route, shop, {}, timings)
    tried = [first]
    plan = repairs(route.converter, shop.recipe.max_float_layers, _max_repairs(shop))
    repair: Repair | None = None
    while not tried[-1].checked.verdict.passed:
        found = [(item.options, item.checked.verdict, item.converted.ranking) for item in tried]
        repair = plan(found)
        if repair is None:
            break
        shop.say(f"{route.name}: {tried[-1].checked.verdict.reason}; trying {repair.words}")
        tried.append(_repaired(made, route, shop, repair.options, timings, first))
    last = tried[-1]
    words = [f"{item.options or 'as it is'}: {item.checked.verdict.reason or 'passed'}" for item in tried]
    common = RouteOutcome(
        route, timings_s=timings, tools=last.converted.tools, runtime_version=last.checked.version,
        tried=words if len(words) > 1 else [],
    )  # fmt: skip
    if not last.checked.verdict.passed:
        reason = tried[0].checked.verdict.reason + (
            f"; {len(tried) - 1} repairs did not help" if len(tried) > 1 else ""
        )
        shop.say(f"{route.name}: left out: {reason}")
        return replace(common, left_out=LeftOut(name=route.name, reason=reason))
    shop.say(f"{route.name}: {_numbers(last.checked.verdict)}")
    spec = _spec(route, shop, last, [f"repaired: {repair.words}"] if repair else [])
    return replace(common, spec=spec, files=last.files())


def _max_repairs(shop: Workshop) -> int:
    chosen = shop.recipe.max_repairs
    return max_repairs(shop.source.nodes) if chosen is None else chosen


def _repaired(
    made: Converter, route: Route, shop: Workshop, options: dict[str, str], timings: dict[str, float], first: Attempt
) -> Attempt:
    """A repair that cannot even be made is one that did not help."""
    try:
        return _attempt(made, route, shop, options, timings)
    except PackagerError as error:
        verdict = Verdict(first.checked.verdict.accuracy, False, str(error))
        return Attempt(options, first.folder, first.converted, replace(first.checked, verdict=verdict))


def _attempt(
    made: Converter, route: Route, shop: Workshop, options: dict[str, str], timings: dict[str, float]
) -> Attempt:
    folder = shop.work_dir / f"{route.name}-{len(list(shop.work_dir.glob(f'{route.name}-*')))}"
    folder.mkdir()
    heartbeats = Heartbeats(shop.say, route.name, canceled=shop.canceled)
    job = ConversionJob(
        converter=route.converter, model=str(shop.source.path), source_format=shop.source.format,
        out=str(folder / "out"), calibration=str(shop.measure.calibration_file or ""),
        fixed_shapes=_fixed_shapes(route, shop), options={**route.options, **options}, environ=dict(shop.environ),
    )  # fmt: skip
    started = shop.clock()
    converted = convert(made, job, folder, heartbeats)
    checking = shop.clock()
    runner = ModelRunner(folder, shop.environ, heartbeats)
    checked = check_file(route.runtime, folder / "out" / converted.entry, shop, runner)
    timings["convert"] = timings.get("convert", 0.0) + checking - started
    timings["check"] = timings.get("check", 0.0) + shop.clock() - checking
    return Attempt(options, folder, converted, checked)


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


def _spec(route: Route, shop: Workshop, attempt: Attempt, notes: list[str]) -> VariantSpec:
    files, bound, converted = attempt.files(), attempt.checked.bindings, attempt.converted
    facts = file_facts(route.runtime, files[converted.entry])
    _require_declared(route.runtime, facts.runtime_versions.minimum, shop.recipe.device_runtimes)
    size = sum(path.stat().st_size for path in files.values())
    activations = shop.measure.activation_bytes
    return VariantSpec(
        name=route.name, runtime=route.runtime, target=route.target, precision=route.precision, entry=converted.entry,
        inputs=bound.inputs, outputs=bound.outputs, runtime_versions=facts.runtime_versions, opset=facts.opset,
        ir_version=facts.ir_version, operators=facts.operators, size_bytes=size,
        peak_memory_bytes=None if activations is None else size + activations,
        layout=_layout(bound), frozen_dimensions=bound.frozen(shop.signature),
        accuracy=attempt.checked.verdict.accuracy, notes=[*converted.notes, *attempt.checked.notes, *notes],
    )  # fmt: skip


def _require_declared(runtime: str, minimum: str | None, declared: Mapping[str, str]) -> None:
    """The devices' own runtime counts, not this machine's. Raises RuntimeRefused."""
    has = declared.get(runtime)
    if has is not None and minimum is not None and not version_in_range(has, VersionRange(minimum=minimum)):
        raise RuntimeRefused(runtime, f">= {minimum} is needed for it; the target has {has}")


def _layout(bound: Bindings) -> str | None:
    channels_last = any(item.permutation is not None for item in bound.inputs)
    if not any(len(item.shape) == 4 for item in bound.inputs):
        return None
    return "NHWC" if channels_last else "NCHW"


def _numbers(verdict: Verdict) -> str:
    accuracy = verdict.accuracy
    return (
        f"{accuracy.metric} {accuracy.value:.4f} (source {accuracy.source_value:.4f}), "
        f"max error {accuracy.max_abs_error:.2g} on {accuracy.samples} samples"
    )
