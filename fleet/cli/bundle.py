"""``mindfleet bundle push|list``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fleet.cli.command import add_command


def register(subparsers: argparse._SubParsersAction[Any], parents: list[argparse.ArgumentParser]) -> None:
    push_example = "bundle push digits-1.0.0.mindie --allow-unsigned"
    group = add_command(subparsers, "bundle", "bundles that can be rolled out", push_example)
    verbs = group.add_subparsers(dest="verb", metavar="VERB", required=True)
    push = add_command(verbs, "push", "upload a bundle (only what is not there yet)", push_example, parents)
    push.add_argument("bundle", metavar="BUNDLE", help="a NAME-VERSION.mindie file")
    push.add_argument("--allow-unsigned", action="store_true", help="take a bundle without a signature")
    push.set_defaults(run=run_push)
    listing = add_command(verbs, "list", "registered bundles", "bundle list --json", parents)
    listing.set_defaults(run=run_list)


def run_push(args: argparse.Namespace) -> int:
    """Verifies every byte, uploads, registers."""
    from edge_contracts.archive import open_bundle
    from fleet.cli.connection import client
    from fleet.cli.output import ProgressLine, print_json, red, say
    from fleet.cli.push import push
    from fleet.domain.plain_words import count
    from fleet.errors import UnsignedBundle

    archive = open_bundle(Path(args.bundle))
    spec = archive.bundle.spec
    archive.verify()
    label = f"{spec.name} {spec.version}"
    if not args.allow_unsigned:
        raise UnsignedBundle(label)
    say(red(f"unsigned bundle: {label} is taken without a signature (--allow-unsigned)"))
    with ProgressLine(f"sending {label}") as line:
        pushed = push(client(args), archive, line.show)
    sent = f"{count(pushed.sent, 'blob')} sent ({pushed.sent_bytes / 1e6:.2f} MB)"
    say(f"{label}: {sent}, {pushed.present:,} {'was' if pushed.present == 1 else 'were'} there already")
    if args.json:
        print_json(pushed.bundle)
    else:
        print(f"{label}  {pushed.bundle.digest}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Registered bundles."""
    from fleet.cli.connection import client
    from fleet.cli.output import print_json, print_table

    bundles = client(args).bundles()
    if args.json:
        print_json(bundles)
        return 0
    rows = [
        (
            b.name,
            b.version,
            "yes" if b.signed else "NO",
            f"{b.size_bytes / 1e6:.2f} MB",
            ", ".join(b.variants),
            b.digest,
        )
        for b in bundles
    ]
    print_table(("BUNDLE", "VERSION", "SIGNED", "SIZE", "VARIANTS", "DIGEST"), rows)
    return 0
