"""``mindpack inspect`` and ``mindpack verify``: what a bundle says, and whether every byte is what it says."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

UNSIGNED = "unsigned: nobody vouches for its origin"


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    inspect = subparsers.add_parser(
        "inspect", parents=[common], help="show what a bundle says of itself",
        epilog="example:\n  mindpack inspect digits-1.0.0.mindie\n\nReads metadata only; `verify` reads every byte.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    inspect.add_argument("bundle", type=Path, metavar="BUNDLE", help="the bundle's file (.mindie)")
    inspect.set_defaults(run=_inspect)
    verify = subparsers.add_parser(
        "verify", parents=[common], help="check every byte of a bundle",
        epilog="example:\n  mindpack verify digits-1.0.0.mindie --allow-unsigned",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    verify.add_argument("bundle", type=Path, metavar="BUNDLE", help="the bundle's file (.mindie)")
    verify.add_argument("--allow-unsigned", action="store_true", help="accept a bundle that nobody signed")
    verify.set_defaults(run=_verify)


def _inspect(args: argparse.Namespace) -> int:
    from edge_contracts.archive import open_bundle
    from packager.bundle_view import document, lines

    bundle = open_bundle(args.bundle).bundle
    if args.json:
        print(msgspec.json.encode(document(bundle)).decode())
        return 0
    for line in lines(bundle):
        print(line)
    print("  " + red(UNSIGNED, sys.stdout.isatty()))
    return 0


def _verify(args: argparse.Namespace) -> int:
    from edge_contracts.archive import open_bundle
    from packager.errors import UnsignedRefused

    archive = open_bundle(args.bundle)
    archive.verify()
    blobs = archive.bundle.blobs()
    if not args.allow_unsigned:
        raise UnsignedRefused(args.bundle, f": every byte is as its digests say, but it is {UNSIGNED}")
    print(red(UNSIGNED, sys.stderr.isatty()), file=sys.stderr)
    if args.json:
        told = {"digest": archive.bundle.digest, "blobs": len(blobs), "bytes": sum(blobs.values()), "signed": False}
        print(msgspec.json.encode(told).decode())
    else:
        print(f"{args.bundle}: {len(blobs)} blobs, {sum(blobs.values())} bytes, all as {archive.bundle.digest} says")
    return 0


def red(text: str, is_terminal: bool) -> str:
    """The text in red on a terminal that shows colours."""
    if not is_terminal or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[31m{text}\x1b[0m"
