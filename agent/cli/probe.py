"""`mindie probe`: what this machine (or a recorded one) is and has."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edge_contracts.capabilities import RuntimeFact

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
    """Hand over to the hardware room, with the runtimes that work here."""
    from agent.hardware.cli import run_probe

    return run_probe(args, lambda _live: _runtime_facts(args))


def _runtime_facts(args: argparse.Namespace) -> list[RuntimeFact]:
    """Cached in the data folder where there is one."""
    from agent.config import load_config
    from agent.inference.registry import runtime_facts

    data_dir = load_config(args, os.environ).data_dir
    cache_file = data_dir / "cache" / "runtime_facts.json" if data_dir.is_dir() else None
    return runtime_facts(cache_file=cache_file)
