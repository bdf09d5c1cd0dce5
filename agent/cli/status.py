"""`mindie status`: what is active, what is in flight, how it is. Only reads."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from agent.cli.terminal import examples, print_json, red

NO_DAEMON = "no daemon runs"


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "status", parents=[common], help="what is active, what is in flight, how it is",
        description="Reads the journal; nothing is changed and no daemon is needed.",
        epilog=examples("mindie status --json --model digits"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--model", metavar="NAME", help="the model that the top-level keys are about")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the document, or the same in words. 1 when --model names one that is not here."""
    from agent.config import load_config
    from agent.control import ask_daemon
    from agent.errors import AgentError
    from agent.fleet_link.identity import FILE_NAME
    from agent.update.journal import read_state
    from agent.update.report import fleet_document, status_document

    config = load_config(args, os.environ)
    document = None
    if (config.data_dir / "control.sock").exists():
        document = ask_daemon(config.data_dir, "status", {"model": args.model}, lambda _: None)
    if document is None:
        document = status_document(read_state(config.data_dir), args.model, daemon=False)
        enrolled = (config.data_dir / FILE_NAME).exists()
        document["fleet"] = fleet_document(enrolled=enrolled, connected=False, detail=NO_DAEMON if enrolled else "")
    if args.model is not None and args.model not in [entry["name"] for entry in document["models"]]:
        raise AgentError(f"no model {args.model!r} on this device (data in {config.data_dir})")
    if args.json:
        print_json(document)
    else:
        print(_text(document))
    return 0


def _text(document: dict[str, Any]) -> str:
    lines = ["daemon: " + ("running" if document["daemon"] else "not running")]
    lines += [f"fleet: {text}" for text in [_fleet(document.get("fleet"))] if text]
    if not document["models"]:
        lines.append("no model is installed")
    for entry in document["models"]:
        lines.append(f"{entry['name']}: {entry['state']}" + ("" if entry["healthy"] else red(" UNHEALTHY", sys.stdout)))
        lines += [f"  {label}: {text}" for label, text in _details(entry) if text]
    return "\n".join(lines)


def _fleet(fleet: dict[str, Any] | None) -> str | None:
    """None: a daemon of an earlier version does not tell."""
    if fleet is None:
        return None
    if not fleet["enrolled"]:
        return "not enrolled"
    return "connected" if fleet["connected"] else f"NOT connected: {fleet['detail'] or 'still connecting'}"


def _details(entry: dict[str, Any]) -> list[tuple[str, str | None]]:
    active, flying = entry["active"], entry["in_flight"]
    return [
        ("active", _bundle(active)),
        ("last good", _bundle(entry["last_good"])),
        ("in flight", f"{flying['version']} ({flying['state']})" if flying else None),
        ("reason", entry["reason"]),
        ("regressed", entry["regressed"]),
    ]


def _bundle(active: dict[str, Any] | None) -> str | None:
    if active is None:
        return None
    signed = "" if active["signed"] else red(" UNSIGNED", sys.stdout)
    options = ", ".join(f"{key} {value}" for key, value in active["options"].items())
    return (
        f"{active['version']} {active['digest'][:19]} {active['variant']}"
        + (f" ({options})" if options else "")
        + signed
    )
