"""The build: one model in, one bundle out, nothing half-written.

read and check the source → samples → what the source answers → every route, two at a time where memory allows
(convert → run → judge) → assemble → write. What went wrong with a route is in the bundle as a reason.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from edge_contracts import names
from edge_contracts._version import __version__
from edge_contracts.archive_writer import write_bundle
from edge_contracts.bundle import AccuracyGate, BundleSpec, LeftOut, Lineage
from edge_contracts.errors import MalformedMessage
from packager import goldens, reference
from packager.assembly import Assembled, assemble
from packager.conversion import Heartbeats
from packager.errors import NothingToPack, RecipeRefused
from packager.isolated_run import ModelRunner
from packager.peak_memory import activation_bytes
from packager.recipe import Recipe, routes
from packager.reference import Reference
from packager.samples import Samples, load_samples, write_rows
from packager.source import read_source
from packager.sources.model import SourceModel
from packager.sources.onnx_signature import with_observed_ranks
from packager.variant_build import RouteOutcome, build_variant
from packager.workshop import Measure, Workshop

MEMORY_FACTOR = 8
"""A converter may hold the weights this many times over."""
MAX_CALIBRATION_CHECK = 500


@dataclass(frozen=True)
class BuildRequest:
    """What the user asked for."""

    model: Path
    output: Path
    name: str
    version: str
    recipe: Recipe = field(default_factory=Recipe)
    calibration: Path | None = None
    goldens: Path | None = None
    author: str | None = None
    created: str | None = None


@dataclass(frozen=True)
class BuildTools:
    """``work_dir`` is an empty folder of this build's own; ``say`` takes progress lines from any thread."""

    work_dir: Path
    environ: Mapping[str, str]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    available_bytes: int | None = None
    cpus: int = 1


@dataclass(frozen=True)
class BuildResult:
    """The written bundle, and how each route went."""

    digest: str
    spec: BundleSpec
    outcomes: list[RouteOutcome]
    source: SourceModel
    size_bytes: int
    timings_s: dict[str, float]


def build(request: BuildRequest, tools: BuildTools) -> BuildResult:
    """Raises ModelRefused, SamplesRefused, RecipeRefused, NothingToPack; OSError passes. Then no output is left."""
    check_request(request)
    started = tools.clock()
    tools.say(f"reading {request.model.name}")
    source = _private_copy(read_source(request.model), tools.work_dir)
    _check_fixed_shapes(request.recipe, source)
    shop = _prepare(request, tools, source)
    timings = {"source": tools.clock() - started}
    started = tools.clock()
    outcomes = _run_routes(shop, tools)
    timings["variants"] = tools.clock() - started
    built = [(outcome.spec, outcome.files) for outcome in outcomes if outcome.spec is not None]
    left_out = [outcome.left_out for outcome in outcomes if outcome.left_out is not None]
    if not built:
        raise NothingToPack([(item.name, item.reason) for item in left_out])
    started = tools.clock()
    blob, count = goldens.encode(request.name, shop.measure.goldens)
    if count < len(shop.measure.goldens.rows):
        tools.say(f"goldens: {count} of {len(shop.measure.goldens.rows)} samples travel, the rest would be too much")
    spec = _bundle_spec(request, shop, outcomes, left_out, count)
    assembled: Assembled = assemble(spec, blob, built)
    write_bundle(request.output, assembled.index_bytes, assembled.blobs)
    timings["write"] = tools.clock() - started
    return BuildResult(assembled.digest, spec, outcomes, source, request.output.stat().st_size, timings)


def check_request(request: BuildRequest) -> None:
    """Name, version and output, before any work. Raises RecipeRefused."""
    try:
        names.bundle_name(request.name)
        names.semantic_version(request.version)
    except MalformedMessage as error:
        raise RecipeRefused(f"--{error.what}", error.reason) from error
    _check_output(request)


def _check_output(request: BuildRequest) -> None:
    """Writing replaces the file by a rename: not the model, and no device or pipe."""
    output, folder = request.output, request.output.absolute().parent
    if output.is_dir():
        raise RecipeRefused("-o", f"{output} is a folder; name the file, for example {request.name}.mindie")
    if not folder.is_dir():
        raise RecipeRefused("-o", f"{output.parent} is no folder; make it first")
    if output.exists() and not output.is_file():
        raise RecipeRefused("-o", f"{output} is a device or pipe, not a file; name a file, for example "
                            f"{request.name}.mindie")  # fmt: skip
    if output.exists() and request.model.exists() and output.samefile(request.model):
        raise RecipeRefused("-o", f"{output} is the model itself; name another file, for example {request.name}.mindie")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RecipeRefused("-o", f"{output.parent} cannot be written to; choose another folder")


def _check_fixed_shapes(recipe: Recipe, source: SourceModel) -> None:
    """A shape that fits no input would leave out the variants that have it and let the others pass without it."""
    for name, shape in recipe.fixed_shapes.items():
        spec = source.signature.input(name)
        if spec is None:
            known = ", ".join(one.name for one in source.signature.inputs)
            raise RecipeRefused("--fixed-shape", f"the model has no input {name!r}; it has {known}")
        if not spec.accepts(shape):
            raise RecipeRefused("--fixed-shape", f"{name!r} takes {spec.shape}; {shape} does not fit")


def _private_copy(source: SourceModel, work_dir: Path) -> SourceModel:
    """The source under a name of ours: what is read later is what was checked, and its path gets into nothing."""
    folder = work_dir / "source"
    folder.mkdir()
    names_of = {file: file.relative_to(source.path.parent) for file in source.files[1:]}
    target = folder / ("model" + {"onnx": ".onnx", "tflite": ".tflite", "openvino": ".xml"}[source.format])
    shutil.copyfile(source.path, target)
    for file, relative in names_of.items():
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / relative)
    return replace(source, path=target, files=[target, *(folder / relative for relative in names_of.values())])


def _prepare(request: BuildRequest, tools: BuildTools, source: SourceModel) -> Workshop:
    signature = source.signature
    runner = ModelRunner(tools.work_dir, tools.environ, Heartbeats(tools.say, "source model"))
    calibration = _load(request.calibration, source, tools, "calibration")
    given = _load(request.goldens, source, tools, "goldens")
    notes: list[str] = []
    if given is not None:
        rows, labels = given.rows, given.labels
    else:
        examples = calibration.rows if calibration else []
        (rows, notes), labels = goldens.seeded_rows(source, signature, runner, examples), None
    tools.say(f"source model: answering {len(rows)} samples")
    answered = reference.ask(source, signature, runner, rows, labels)
    calibrated = None
    if calibration is not None and given is None:
        kept = calibration.rows[:MAX_CALIBRATION_CHECK]
        kept_labels = calibration.labels[:MAX_CALIBRATION_CHECK] if calibration.labels else None
        calibrated = reference.ask(source, signature, runner, kept, kept_labels)
    seen: dict[str, list[Sequence[int]]] = {
        spec.name: [answer[spec.name].shape for answer in answered.answers] for spec in signature.outputs
    }
    signature, more = with_observed_ranks(signature, seen)
    for note in [*notes, *more]:
        tools.say(f"note: {note}")
    return Workshop(
        source=replace(source, signature=signature, notes=[*source.notes, *notes, *more]), signature=signature,
        measure=_measure(source, answered, calibrated, calibration, tools), recipe=request.recipe,
        work_dir=tools.work_dir, environ=tools.environ, say=tools.say, clock=tools.clock,
    )  # fmt: skip


def _measure(
    source: SourceModel, answered: Reference, calibrated: Reference | None, calibration: Samples | None,
    tools: BuildTools,
) -> Measure:  # fmt: skip
    file = None
    if calibration is not None:
        file = tools.work_dir / "calibration.bin"
        write_rows(file, calibration.rows)
    shapes = {name: array.shape for name, array in answered.rows[0].items()}
    activations = activation_bytes(source.path, shapes) if source.format == "onnx" else None
    return Measure(answered, calibrated, file, activations)


def _load(path: Path | None, source: SourceModel, tools: BuildTools, what: str) -> Samples | None:
    if path is None:
        return None
    samples = load_samples(path, source.signature)
    skipped = f", {samples.skipped} skipped (NaN or infinity)" if samples.skipped else ""
    tools.say(f"{what}: {len(samples.rows)} samples from {path.name}{skipped}")
    return samples


def _run_routes(shop: Workshop, tools: BuildTools) -> list[RouteOutcome]:
    wanted = routes(shop.source.format, shop.source.precision, shop.recipe)
    workers = max(1, min(tools.cpus, len(wanted)))
    if tools.available_bytes is not None and shop.source.weight_bytes:
        workers = max(1, min(workers, tools.available_bytes // (shop.source.weight_bytes * MEMORY_FACTOR)))
    pool = ThreadPoolExecutor(workers, thread_name_prefix="route")
    try:
        return list(pool.map(lambda route: build_variant(route, shop), wanted))
    except BaseException:  # Ctrl-C, too, must reach the processes that the routes' threads wait for
        shop.canceled.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _bundle_spec(
    request: BuildRequest, shop: Workshop, outcomes: list[RouteOutcome], left_out: list[LeftOut], count: int
) -> BundleSpec:
    tools = {name: version for outcome in outcomes for name, version in outcome.tools.items()}
    labels = shop.measure.goldens.labels
    calibration = shop.measure.calibration_file
    lineage = Lineage(
        source_digest=shop.source.digest, source_format=shop.source.format,
        tools={"mindedge": __version__, **dict(sorted(tools.items()))},
        calibration_digest=_digest(request.calibration) if calibration else None,
        options=options_of(request), author=request.author, created=request.created,
    )  # fmt: skip
    return BundleSpec(
        name=request.name, version=request.version, signature=shop.signature, golden_count=count,
        gate=AccuracyGate(max_drop=request.recipe.max_drop), lineage=lineage,
        notes={"source": "; ".join(shop.source.notes)} if shop.source.notes else {},
        golden_labels=labels[:count] if labels is not None else None, left_out=left_out,
    )  # fmt: skip


def options_of(request: BuildRequest) -> dict[str, str]:
    """The choices that made the bundle what it is, without a path."""
    recipe = request.recipe
    options = {
        "include-runtimes": ",".join(recipe.targets),
        "max-drop": f"{recipe.max_drop:g}",
        "quantize-method": recipe.method,
    }
    if recipe.fixed_shapes:
        options["fixed-shape"] = " ".join(
            f"{name}={','.join(map(str, shape))}" for name, shape in sorted(recipe.fixed_shapes.items())
        )
    return options


def _digest(path: Path | None) -> str | None:
    from packager.file_digest import file_digest

    return None if path is None else file_digest(path)


def available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """MemAvailable, None where it is not told."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def usable_cpus() -> int:
    return len(os.sched_getaffinity(0))
