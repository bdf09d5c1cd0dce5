"""`mindie install BUNDLE`: one bundle file, with no network at all."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from agent.cli.terminal import examples, print_json, say, warn_unsigned


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "install", parents=[common], help="install a bundle file: verify, choose by measurement, prove, commit",
        description="Runs the whole update for one file: by the daemon where one runs, else here and now.",
        epilog=examples("mindie install digits-1.0.0.mindie --allow-unsigned"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("bundle", metavar="BUNDLE", help="a .mindie file")
    parser.add_argument("--allow-unsigned", action="store_true", help="take a bundle that nobody has signed")
    parser.add_argument("--cpus", metavar="LIST", help="CPUs to use when no daemon runs, such as 0,2-3")
    parser.add_argument("--race-budget", type=float, metavar="S", help="seconds for the race when no daemon runs")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Talk to the daemon, or run the machine."""
    from agent.config import load_config
    from agent.control import ask_daemon
    from agent.update.install_once import check_file

    config = load_config(args, os.environ)
    archive = Path(args.bundle).absolute()
    bundle = check_file(archive)
    allow_unsigned = args.allow_unsigned or config.update.allow_unsigned
    if allow_unsigned:
        warn_unsigned(f"{bundle.spec.name} {bundle.spec.version}")
    document = ask_daemon(
        config.data_dir, "install", {"path": str(archive), "allow_unsigned": allow_unsigned}, say
    )  # fmt: skip
    if document is None:
        document = _install_here(config, archive, allow_unsigned)
    _show(document, args.json)
    return 0


def _install_here(config: Any, archive: Path, allow_unsigned: bool) -> dict[str, Any]:
    from agent.composition import install_bundle
    from agent.update.journal import read_state
    from agent.update.report import status_document
    from edge_contracts.messages import Policy

    installed = install_bundle(config, archive, Policy(allow_unsigned=allow_unsigned), say)
    return status_document(read_state(config.data_dir), installed.name, daemon=False)


def _show(document: dict[str, Any], as_json: bool) -> None:
    active = document.get("active") or {}
    say(f"{active.get('name')} {active.get('version')} is active: {active.get('variant')} {active.get('options')}")
    if as_json:
        print_json(document)
