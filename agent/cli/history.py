"""`mindie history`: deployments that have ended."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from agent.cli.terminal import examples, print_json


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "history", parents=[common], help="deployments that have ended, oldest first",
        description="Every deployment with its end and the reason.", epilog=examples("mindie history --json"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--model", metavar="NAME", help="only this model's")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print them."""
    from agent.config import load_config
    from agent.update.journal import read_history

    config = load_config(args, os.environ)
    entries = [entry for entry in read_history(config.data_dir) if args.model in (None, entry.model)]
    if args.json:
        print_json(entries)
        return 0
    for entry in entries:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at_ms / 1000))
        reason = f": {entry.reason}" if entry.reason else ""
        print(f"{when}  {entry.model} {entry.version or '-'}  {entry.state.value}{reason}")
    return 0
