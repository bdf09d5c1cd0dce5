"""``mindie bench``: the race over a bundle or a bare model file, beside ONNX Runtime."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.inference.bundle_folder import BundleFolder
    from agent.selection.request import RaceView, SelectionRequest, SelectionTools
    from edge_contracts.capabilities import Capabilities
    from edge_contracts.evidence import ChoiceEvidence

OBJECTIVES = ("latency", "throughput", "memory")
EXAMPLES = """examples:
  mindie bench digits-1.0.0.mindie --allow-unsigned   race what is in the bundle
  mindie bench model.onnx --budget-s 60         race the runtimes on one file
  mindie bench model.onnx --cpus 0 --json       on one CPU, for a program
  mindie bench model.onnx --fixed-shape input=1,3,224,224
"""


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add ``bench``."""
    parser = subparsers.add_parser(
        "bench", parents=[common], help="race runtimes, precisions and threads on this device",
        description="Finds what serves a model best on this device, by measurement, and tells why. Installs nothing.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL", type=Path, help="a .mindie bundle, or an .onnx or .tflite file")
    parser.add_argument("--objective", choices=OBJECTIVES, default="latency", help="what is to be best (%(default)s)")
    parser.add_argument("--budget-s", type=_seconds, default=30.0, metavar="S", help="time for all (%(default)s)")
    parser.add_argument("--max-drop", type=_fraction, metavar="F", help="accepted loss on the goldens (the bundle's)")
    parser.add_argument("--cpus", metavar="LIST", help="CPUs to race on, such as 0,2-3 (all that are allowed)")
    parser.add_argument("--fixed-shape", action="append", default=[], type=_shape, metavar="NAME=1,3,224,224",
                        help="shape of an input that a bare file leaves open; may be repeated")  # fmt: skip
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write one self-contained page")
    parser.add_argument("--allow-unsigned", action="store_true", help="take a bundle that nobody has signed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 when something was chosen, 1 when nothing runs. Raises AgentError, ContractError, OSError."""
    from agent.errors import ConfigurationError, NoCandidate
    from agent.selection.choice import choose

    if args.report is not None and not args.report.absolute().parent.is_dir():
        raise ConfigurationError("--report", f"{args.report.parent} is no folder")
    samples: dict[str, Sequence[float]] = {}
    with _scratch() as scratch, _display() as observe:
        _say(f"reading {args.model.name}")
        folder = _folder(args, scratch)
        request = _request(args, folder)
        tools = replace(_tools(scratch, observe), record=samples.__setitem__)
        try:
            evidence, status = choose(request, tools), 0
        except NoCandidate as error:
            if error.evidence is None:
                raise
            evidence, status = error.evidence, 1
    if args.report is not None:
        from agent.selection.report import page

        sizes = {variant.name: variant.spec.size_bytes for variant in folder.bundle.variants}
        args.report.write_text(page(args.model.name, evidence, samples, sizes), encoding="utf-8")
        _say(f"wrote {args.report}")
    _print(args, evidence)
    return status


def _request(args: argparse.Namespace, folder: BundleFolder) -> SelectionRequest:
    from agent.selection.request import SelectionRequest

    device = _device(args)
    drop = folder.bundle.spec.gate.max_drop if args.max_drop is None else args.max_drop
    return SelectionRequest(
        folder=folder, device=device, budget_cpus=device.cpu.budget_cpus or 1.0, affinity=_affinity(args.cpus),
        objective=args.objective, race_budget_s=args.budget_s, max_drop=drop,
    )  # fmt: skip


def _tools(scratch: Path, observe: Callable[[RaceView], None] | None) -> SelectionTools:
    """Nothing is taken from earlier races: a bench measures."""
    from agent.selection.request import SelectionTools

    tools = SelectionTools(cache_dir=scratch / "cache", work_dir=scratch / "work")
    return replace(tools, progress=_say) if observe is None else replace(tools, observe=observe)


def _folder(args: argparse.Namespace, scratch: Path) -> BundleFolder:
    from agent.cli.terminal import warn_unsigned
    from agent.composition import admit_bundle
    from agent.config import load_config
    from agent.errors import BackendError
    from agent.inference.bundle_folder import lay_out
    from agent.selection.bare_model import RUNTIMES_OF_SUFFIX, lay_out_bare_model
    from edge_contracts.archive import open_bundle

    if args.model.is_dir():
        raise BackendError("bench", f"{args.model} is a folder: a .mindie bundle, .onnx or .tflite file is expected")
    if args.model.suffix.lower() in RUNTIMES_OF_SUFFIX:
        return lay_out_bare_model(args.model, scratch / "bundle", dict(args.fixed_shape))
    archive = open_bundle(args.model)
    spec = archive.bundle.spec
    if not admit_bundle(load_config(args, os.environ), archive.bundle, allow_unsigned=args.allow_unsigned):
        warn_unsigned(f"{spec.name} {spec.version}")
    return lay_out(archive, scratch / "bundle")


def _device(args: argparse.Namespace) -> Capabilities:
    from agent.config import load_config
    from agent.device_facts import DeviceFacts

    return DeviceFacts(load_config(args, os.environ).data_dir)()


def _affinity(cpus: str | None) -> frozenset[int] | None:
    if cpus is None:
        return None
    from agent.errors import ConfigurationError
    from agent.hardware.cpu_list import parse

    try:
        wanted = frozenset(parse(cpus))
    except ValueError as error:
        raise ConfigurationError("--cpus", f"{cpus!r} is not a list of CPUs such as 0,2-3") from error
    if not wanted or not wanted <= os.sched_getaffinity(0):
        raise ConfigurationError("--cpus", f"{cpus!r} is not among the CPUs that this process may use")
    return wanted


def _print(args: argparse.Namespace, evidence: ChoiceEvidence) -> None:
    import msgspec

    from agent.selection.bench_document import document
    from agent.selection.explain import explain

    if args.json:
        sys.stdout.write(msgspec.json.encode(document(args.model.name, evidence)).decode() + "\n")
    else:
        sys.stdout.write(explain(evidence) + "\n")


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder that is gone afterwards, also after Ctrl-C."""
    folder = Path(tempfile.mkdtemp(prefix="mindie-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _display() -> Iterator[Callable[[RaceView], None] | None]:
    """The live picture where the terminal can show it; None elsewhere."""
    from agent.selection.live_display import LiveDisplay, is_wanted

    def columns() -> int:
        return shutil.get_terminal_size((80, 24)).columns

    if not is_wanted(sys.stderr, os.environ, columns()):
        yield None
        return
    display = LiveDisplay(sys.stderr, columns, time.monotonic)
    try:
        yield display.show
    finally:
        display.close()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds between 0 and 86400")
    return value


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a fraction between 0 and 1")
    return value


def _shape(text: str) -> tuple[str, list[int]]:
    name, _, sizes = text.rpartition("=")
    try:
        shape = [int(size) for size in sizes.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=1,3,224,224") from error
    if not name or any(size < 1 for size in shape):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=1,3,224,224")
    return name, shape
