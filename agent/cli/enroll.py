"""`mindie enroll`: join a fleet with a one-time token."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from agent.cli.terminal import examples, print_json, say


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "enroll", parents=[common], help="join a fleet with a one-time token",
        description="Uses up a one-time token and keeps the device's identity in DATA/identity.json (mode 0600).",
        epilog=examples("mindfleet token create --out t.txt; mindie enroll --token-file t.txt --name cam-1"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--token-file", metavar="FILE", help="the token; - reads it from stdin (or MINDEDGE_TOKEN)")
    parser.add_argument("--server", metavar="URL", help="the fleet's server, where the token's address does not fit")
    parser.add_argument("--name", metavar="ID", help="the id this device would like: A-Z a-z 0-9 _ -")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="a label; may be repeated")
    parser.add_argument("--force", action="store_true", help="replace the identity that is there, or who has --name")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exchange the token for an identity."""
    from agent.composition import enrol_device
    from agent.config import load_config
    from agent.errors import ConfigurationError
    from agent.fleet_link.identity import load_identity
    from edge_contracts.enrolment import parse_token
    from edge_contracts.names import device_name

    config = load_config(args, os.environ)
    if load_identity(config.data_dir) is not None and not args.force:
        raise ConfigurationError(
            "--data", f"{config.data_dir} is enrolled already: use --force to replace its identity"
        )
    token = parse_token(_token_text(args.token_file))
    if args.name is not None:
        device_name(args.name, "--name")
    server = args.server or token.server
    say(f"enrolling at {server} ...")
    enrolled = enrol_device(config, token, server, args.name, _labels(args.label), replace=args.force)
    identity = enrolled.identity
    replaces = f"replaces {identity.device}, " if enrolled.replaced else ""
    say(f"{replaces}enrolled as {identity.site}/{identity.device} at {identity.server}")
    if args.json:
        print_json({"device": identity.device, "site": identity.site, "server": identity.server,
                    "replaced": enrolled.replaced})  # fmt: skip
    return 0


def _token_text(token_file: str | None) -> str:
    from agent.errors import ConfigurationError

    if token_file is None:
        text = os.environ.get("MINDEDGE_TOKEN")
        if not text:
            raise ConfigurationError("--token-file", "is required (or MINDEDGE_TOKEN): the one-time token")
        return text
    if token_file == "-":  # noqa: S105 - not a secret: "read it from stdin"
        return sys.stdin.readline()
    try:
        return Path(token_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("--token-file", f"{token_file} cannot be read: {error}") from error


def _labels(pairs: list[str]) -> dict[str, str]:
    from agent.errors import ConfigurationError

    labels: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigurationError("--label", f"{pair!r} is not KEY=VALUE")
        labels[key] = value
    return labels
