"""``mindfleet token create|list|delete``: one-time tokens with which devices join."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.cli.command import add_command

if TYPE_CHECKING:
    from fleet.http.api_types import TokenView


def register(subparsers: argparse._SubParsersAction[Any], parents: list[argparse.ArgumentParser]) -> None:
    create_example = "token create --uses 3 --expires-s 3600 --out token.txt"
    group = add_command(subparsers, "token", "tokens with which devices join", create_example)
    verbs = group.add_subparsers(dest="verb", metavar="VERB", required=True)
    create = add_command(verbs, "create", "make a token; it is shown once", create_example, parents)
    create.add_argument("--uses", type=int, default=1, metavar="N", help="devices it lets in (default 1)")
    create.add_argument("--expires-s", type=float, default=86400.0, metavar="S", help="default one day")
    create.add_argument("--site", default="default", metavar="S", help="site of the devices (default: default)")
    create.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="label of the devices")
    create.add_argument("--device-server", metavar="URL", help="the server's address as devices see it")
    create.add_argument("--out", metavar="FILE", help="write it to a file (0600) instead of stdout")
    create.set_defaults(run=run_create)
    listing = add_command(verbs, "list", "tokens that exist (without their secrets)", "token list", parents)
    listing.set_defaults(run=run_list)
    delete = add_command(verbs, "delete", "withdraw a token", "token delete t2e1646d220", parents)
    delete.add_argument("token", metavar="ID", help="as `mindfleet token list` shows it")
    delete.set_defaults(run=run_delete)


def run_create(args: argparse.Namespace) -> int:
    """Prints the token, or writes it to a file."""
    from fleet.broker.private_file import write_private
    from fleet.cli.connection import client
    from fleet.cli.output import print_json, say
    from fleet.errors import ConfigurationError
    from fleet.http.api_types import TokenRequest

    if not 0 < args.expires_s < float("inf"):  # NaN would reach the server as null: a token that never expires
        raise ConfigurationError("--expires-s", f"{args.expires_s:g} is not a number of seconds > 0")
    fleet = client(args)
    created = fleet.create_token(
        TokenRequest(
            uses=args.uses, expires_s=args.expires_s, site=args.site, labels=parse_labels(args.label),
            server=args.device_server or fleet.server,
        )
    )  # fmt: skip
    if args.out:
        write_private(Path(args.out), created.token + "\n")
        say(f"token {created.id} written to {args.out}")
    if args.json:
        shown: dict[str, Any] = {"id": created.id, "expires_ms": created.expires_ms}
        print_json({**shown, "file": args.out} if args.out else {**shown, "token": created.token})
    elif not args.out:
        print(created.token)
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Tokens that exist."""
    from fleet.cli.connection import client
    from fleet.cli.output import moment, print_json, print_table

    tokens = client(args).tokens()
    if args.json:
        print_json(tokens)
    else:
        now_ms = time.time_ns() // 1_000_000
        rows = [(t.id, t.site, t.uses_left, moment(t.expires_ms) or "never", token_state(t, now_ms)) for t in tokens]
        print_table(("TOKEN", "SITE", "USES LEFT", "EXPIRES", "STATE"), rows)
    return 0


def token_state(token: TokenView, now_ms: int) -> str:
    """Whether it still lets a device in."""
    if token.uses_left < 1:
        return "used up"
    return "expired" if token.expires_ms is not None and token.expires_ms <= now_ms else "usable"


def run_delete(args: argparse.Namespace) -> int:
    """Withdraws a token."""
    from fleet.cli.connection import client
    from fleet.cli.output import print_json, say

    client(args).delete_token(args.token)
    say(f"token {args.token} deleted")
    if args.json:
        print_json({"id": args.token, "deleted": True})
    return 0


def parse_labels(given: list[str]) -> dict[str, str]:
    """Raises ConfigurationError for what is not NAME=VALUE."""
    from fleet.errors import ConfigurationError

    labels: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise ConfigurationError("--label", f"{text!r} is not NAME=VALUE")
        labels[name] = value
    return labels
