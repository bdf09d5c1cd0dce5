"""`mindie rollback`: go back to the last good bundle by hand."""

from __future__ import annotations

import argparse
import os
from typing import Any

from agent.cli.terminal import examples, print_json, say


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "rollback", parents=[common], help="go back to the last good bundle, or to none where there was none",
        description="The bundle is here and was verified when it came, so nothing is fetched.",
        epilog=examples("mindie rollback digits"), formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", nargs="?", metavar="MODEL", help="default: the model last changed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """By the daemon, or here."""
    from agent.composition import roll_back_here
    from agent.config import load_config
    from agent.control import ask_daemon

    config = load_config(args, os.environ)
    document = ask_daemon(config.data_dir, "rollback", {"model": args.model}, say)
    if document is None:
        document = roll_back_here(config, args.model, say)
    active = document["active"]
    say(f"{document['name']}: " + (f"{active['version']} is active" if active else "no bundle is active"))
    if args.json:
        print_json(document)
    return 0
