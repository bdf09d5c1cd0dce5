"""`mindie probe`: what this machine (or a recorded one) is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from agent.hardware import measure, report
from agent.hardware.probe import probe
from agent.hardware.sysfs import Machine, recorded_machine, this_machine
from edge_contracts.capabilities import RuntimeFact, to_json_bytes

RuntimeFacts = Callable[[argparse.Namespace], "list[RuntimeFact]"]
"""(parsed arguments) -> what is known about runtimes; asked only for this machine, never for a recorded one."""

EXAMPLES = """examples:
  mindie probe                      what this machine is, for a person
  mindie probe --json               the same as one JSON document
  mindie probe --measure            with memory bandwidth and compute, takes a few seconds
  mindie probe --root ./pi4-dump    a recorded machine: DIR stands for /, nothing is executed
"""


def register(
    subparsers: Any, common: argparse.ArgumentParser | None = None, runtime_facts: RuntimeFacts | None = None
) -> None:
    """Adds `probe` to an argparse sub-parser set; the parsed arguments carry `run`, a callable(args) -> exit status.

    `common` has the options of every command, --json among them; without it the command brings its own --json.
    """
    parser = subparsers.add_parser(
        "probe",
        parents=[common] if common is not None else [],
        help="show what this device is: board, CPU, memory, accelerators, limits, runtimes",
        description="Shows the facts that decide which models this device can run, and how fast.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="a recorded tree that stands for /")
    parser.add_argument("--measure", action="store_true", help="measure memory bandwidth and compute too")
    if common is None:
        parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=lambda args: run_probe(args, runtime_facts))


def run_probe(
    args: argparse.Namespace,
    runtime_facts: RuntimeFacts | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Exit status 0, or 2 when used wrongly. Facts go to `out`, warnings to `err`."""
    out, err = out or sys.stdout, err or sys.stderr
    problem = _misuse(args)
    if problem is not None:
        err.write(f"mindie probe: {problem}\n")
        return 2
    machine = _machine(args.root)
    runtimes = runtime_facts(args) if machine.live and runtime_facts is not None else []
    facts = probe(machine, runtimes)
    if args.measure:
        facts = measure.measured(facts, machine)
    for warning in machine.warnings:
        err.write(f"warning: {warning}\n")
    out.write(to_json_bytes(facts).decode() + "\n" if args.json else report.render(facts))
    return 0


def _machine(root: Path | None) -> Machine:
    """`--root /` is this machine."""
    return this_machine() if root is None or root.resolve() == Path("/") else recorded_machine(root)


def _misuse(args: argparse.Namespace) -> str | None:
    root: Path | None = args.root
    if root is None or root.resolve() == Path("/"):
        return None
    if not root.is_dir():
        return f"--root {root}: {'not a directory' if root.exists() else 'no such directory'}"
    if args.measure:
        return "--measure measures this machine and cannot be used with --root"
    return None
