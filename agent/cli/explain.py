"""`mindie explain`: why this variant with these options serves here."""

from __future__ import annotations

import argparse
import os
from typing import Any

from agent.cli.terminal import examples, print_json


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "explain", parents=[common], help="why this variant with these options: what was measured here",
        description="Prints the evidence of the choice that serves, or with --last of the last deployment.",
        epilog=examples("mindie explain digits"), formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", nargs="?", metavar="MODEL", help="default: the model last changed")
    parser.add_argument("--last", action="store_true", help="the last deployment's evidence, also when it failed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print it. 1 when there is none."""
    from agent.config import load_config
    from agent.errors import AgentError
    from agent.selection.explain import explain
    from agent.update.journal import read_state

    config = load_config(args, os.environ)
    state = read_state(config.data_dir)
    name = args.model or state.last_changed
    model = state.models.get(name) if name is not None else None
    if model is None:
        raise AgentError(f"no model {args.model!r} on this device" if args.model else "no model is installed here")
    last = model.deployment.evidence if model.deployment is not None else None
    evidence = last if args.last else (model.active.evidence if model.active is not None else last)
    if evidence is None:
        raise AgentError(f"{name}: no evidence of a choice (nothing has been measured here yet)")
    if args.json:
        print_json(evidence)
    else:
        print(explain(evidence))
    return 0
