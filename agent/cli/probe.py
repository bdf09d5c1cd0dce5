"""`mindie probe`: what this machine (or a recorded one) is and has."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from agent.hardware.sysfs import Machine
    from edge_contracts.capabilities import Capabilities

EXAMPLES = """examples:
  mindie probe                      what this machine is, for a person
  mindie probe --json               the same as one JSON document
  mindie probe --measure            with memory bandwidth and compute, takes a few seconds
  mindie probe --root ./pi4-dump    a recorded machine: DIR stands for /, nothing is executed
"""


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "probe", parents=[common],
        help="what this device is: board, CPU, memory, accelerators, limits, runtimes",
        description="Shows the facts that decide which models this device can run, and how fast.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--root", type=Path, metavar="DIR", help="a recorded tree that stands for /")
    parser.add_argument("--measure", action="store_true", help="measure memory bandwidth and compute too")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0, or 2 when used wrongly. Runtimes are asked, in processes of their own, while the machine is looked at."""
    problem = _misuse(args)
    if problem is not None:
        sys.stderr.write(f"mindie probe: {problem}\n")
        return 2
    return show(args, _completion(args) if _is_this_machine(args.root) else None, sys.stdout, sys.stderr)


def show(
    args: argparse.Namespace, complete: Callable[[Capabilities], Capabilities] | None, out: TextIO, err: TextIO
) -> int:
    """Facts go to ``out``, warnings to ``err``. ``complete`` adds what files cannot tell; only of this machine."""
    from agent.hardware import measure, report
    from agent.hardware.probe import probe
    from edge_contracts.capabilities import to_json_bytes

    machine = _machine(args.root)
    facts = probe(machine)
    if complete is not None:
        facts = complete(facts)
    if args.measure:
        facts = measure.measured(facts, machine)
    for warning in machine.warnings:
        err.write(f"warning: {warning}\n")
    out.write(to_json_bytes(facts).decode() + "\n" if args.json else report.render(facts))
    return 0


def _completion(args: argparse.Namespace) -> Callable[[Capabilities], Capabilities]:
    """Runtimes, and what was measured once. They are being asked from now on."""
    import msgspec

    from agent.config import load_config
    from agent.device_facts import RuntimesAsked, facts_cache_file
    from agent.measured_figures import with_kept_figures

    data_dir = load_config(args, os.environ).data_dir
    asked = RuntimesAsked(facts_cache_file(data_dir, os.environ))

    def complete(facts: Capabilities) -> Capabilities:
        return with_kept_figures(data_dir, msgspec.structs.replace(facts, runtimes=asked.answers()))

    return complete


def _is_this_machine(root: Path | None) -> bool:
    """``--root /`` is this machine."""
    return root is None or root.resolve() == Path("/")


def _machine(root: Path | None) -> Machine:
    from agent.hardware.sysfs import recorded_machine, this_machine

    return this_machine() if root is None or _is_this_machine(root) else recorded_machine(root)


def _misuse(args: argparse.Namespace) -> str | None:
    root: Path | None = args.root
    if root is None or _is_this_machine(root):
        return None
    if not root.is_dir():
        return f"--root {root}: {'not a directory' if root.exists() else 'no such directory'}"
    if args.measure:
        return "--measure measures this machine and cannot be used with --root"
    return None
