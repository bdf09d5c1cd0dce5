"""``mindpack build``: one model in, one bundle out."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from packager.recipe import METHODS, TARGETS_OF_PURPOSE, Recipe, parse_fixed_shape, parse_targets

EXAMPLE = """example:
  mindpack build digits.onnx -o digits-1.0.0.mindie --name digits --version 1.0.0 \\
      --calibration calibration.npz --golden heldout.npz --install-toolchains

--calibration and --golden are .npz files: keys are the model's input names, the first axis is samples; an optional key
`labels` holds the right class of each. Static int8 variants need --calibration. Samples of --golden travel in the
bundle, those of --calibration do not. OUT.report.json beside the bundle says what was measured.
SOURCE_DATE_EPOCH, where set, is the time told in the lineage; else none is."""


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    parser = subparsers.add_parser(
        "build", parents=[common], help="pack a model", epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", type=Path, metavar="MODEL", help="the model's file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the bundle to write (.mindie)")
    parser.add_argument("--name", required=True, help="the bundle's name, lower case")
    parser.add_argument("--version", required=True, dest="bundle_version", help="MAJOR.MINOR.PATCH")
    parser.add_argument("--calibration", type=Path, metavar="F.npz", help="samples that int8 ranges are taken from")
    parser.add_argument("--golden", type=Path, metavar="F.npz", help="samples that prove variants here and on devices")
    parser.add_argument("--recipe", type=Path, metavar="F.toml", help="these choices and a variant list from a file")
    parser.add_argument("--include-runtimes", metavar="TARGETS", help="cpu,gpu,vpu (default: cpu)")
    parser.add_argument("--optimize-for", choices=sorted(TARGETS_OF_PURPOSE), help="the targets that this needs")
    parser.add_argument("--quantize-method", choices=METHODS, help="default: static_int8")
    parser.add_argument("--max-drop", type=float, metavar="X", help="largest accepted loss (default: 0.01)")
    parser.add_argument(
        "--fixed-shape", action="append", default=[], metavar="INPUT=1,3,224,224", help="freeze an input's open sizes"
    )
    parser.add_argument("--author", help="told in the bundle's lineage")
    parser.add_argument("--install-toolchains", action="store_true", help="first make what converters need")
    parser.set_defaults(run=_build)


def _build(args: argparse.Namespace) -> int:
    from packager.build_report import write_report
    from packager.bundle_view import document
    from packager.pipeline import BuildTools, available_bytes, build, check_request, usable_cpus
    from packager.work_folder import BUILD_PREFIX, sweep_partial_files, work_folder

    say = _speaker(time.monotonic)
    request = _request(args)
    check_request(request)
    if args.install_toolchains:
        _install_toolchains(request, say)
    sweep_partial_files(request.output)
    with work_folder(Path(tempfile.gettempdir()), BUILD_PREFIX) as folder:
        tools = BuildTools(folder, os.environ, say, available_bytes=available_bytes(), cpus=usable_cpus())
        result = build(request, tools)
    report = write_report(result, request.output)
    say(f"wrote {request.output} ({result.size_bytes / 1000:.0f} kB) and {report.name}")
    if args.json:
        from edge_contracts.archive import open_bundle

        shown = {**document(open_bundle(request.output).bundle), "path": str(request.output), "report": str(report)}
        print(msgspec.json.encode(shown).decode())
    else:
        count = sum(outcome.spec is not None for outcome in result.outcomes)
        print(f"{request.output}: {result.spec.name} {result.spec.version}, {count} variants, {result.digest}")
    return 0


def _request(args: argparse.Namespace) -> Any:
    from packager.errors import RecipeRefused
    from packager.pipeline import BuildRequest

    if args.max_drop is not None and not 0 <= args.max_drop <= 1:
        raise RecipeRefused("--max-drop", f"{args.max_drop:g} is not between 0 and 1")
    return BuildRequest(
        model=args.model, output=args.output, name=args.name, version=args.bundle_version,
        recipe=_recipe(args),
        calibration=args.calibration, goldens=args.golden, author=args.author, created=_created(os.environ),
    )  # fmt: skip


def _recipe(args: argparse.Namespace) -> Recipe:
    """The file's choices, those of the options before them."""
    from packager.recipe_file import read_recipe

    recipe = read_recipe(args.recipe) if args.recipe else Recipe()
    chosen: dict[str, Any] = {}
    if args.optimize_for:
        chosen["targets"] = TARGETS_OF_PURPOSE[args.optimize_for]
    if args.include_runtimes:
        chosen["targets"] = parse_targets(args.include_runtimes)
    if args.max_drop is not None:
        chosen["max_drop"] = args.max_drop
    if args.quantize_method:
        chosen["method"] = args.quantize_method
    if args.fixed_shape:
        chosen["fixed_shapes"] = dict(parse_fixed_shape(text) for text in args.fixed_shape)
    return replace(recipe, **chosen)


def _created(environ: Any) -> str | None:
    from packager.errors import RecipeRefused

    text = environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 11:
        raise RecipeRefused("SOURCE_DATE_EPOCH", f"{text[:40]!r} is not a number of seconds")
    return datetime.fromtimestamp(int(text), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _install_toolchains(request: Any, say: Callable[[str], None]) -> None:
    from packager.converters.registry import converter
    from packager.recipe import routes
    from packager.source import read_source
    from packager.toolchain import load_toolchain, toolchains_root
    from packager.toolchain_install import install

    source = read_source(request.model)
    wanted = {
        converter(route.converter).needs.toolchain for route in routes(source.format, source.precision, request.recipe)
    }
    for name in sorted(name for name in wanted if name):
        install(load_toolchain(name), toolchains_root(os.environ), os.environ, say, time.sleep)


def _speaker(clock: Callable[[], float]) -> Callable[[str], None]:
    """Progress on stderr, whole lines from any thread, with the seconds since the start."""
    started, lock = clock(), threading.Lock()

    def say(text: str) -> None:
        with lock:
            print(f"[{clock() - started:5.1f} s] {text}", file=sys.stderr, flush=True)

    return say
