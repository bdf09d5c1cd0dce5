"""``mindfleet tui``: the operator's screen."""

from __future__ import annotations

import argparse
from typing import Any


def register(subparsers: argparse._SubParsersAction[Any], parents: list[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "tui", parents=parents, help="the operator's screen: devices and rollouts, live",
        epilog="example:\n  mindfleet tui --server http://10.0.0.5:8080 --token-file operator.token",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Returns when the operator leaves."""
    import os

    from fleet.cli.connection import server_url, token
    from fleet.tui.app import run as run_tui

    return int(run_tui(server_url(args, os.environ), token(args, os.environ)) or 0)
