"""``mindpack diff``, ``push`` and ``pull``: two bundles compared; bundles to and from an OCI registry."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

TOKEN_VARIABLE = "MINDEDGE_TOKEN"  # noqa: S105  # the name, not the secret


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    diff = subparsers.add_parser(
        "diff", parents=[common], help="what changed between two bundles",
        epilog="example:\n  mindpack diff digits-1.0.0.mindie digits-1.1.0.mindie",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    diff.add_argument("old", type=Path, metavar="OLD", help="the bundle before")
    diff.add_argument("new", type=Path, metavar="NEW", help="the bundle after")
    diff.set_defaults(run=_diff)
    push = subparsers.add_parser(
        "push", parents=[common], help="send a bundle to an OCI registry (only what is not there yet)",
        epilog="example:\n  mindpack push digits-1.0.0.mindie http://127.0.0.1:5000/models/digits --allow-unsigned\n\n"
        "The tag is the bundle's version unless the URL names one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    push.add_argument("bundle", type=Path, metavar="BUNDLE", help="the bundle's file (.mindie)")
    push.add_argument("url", metavar="URL", help="https://HOST/REPOSITORY[:TAG]")
    push.set_defaults(run=_push)
    pull = subparsers.add_parser(
        "pull", parents=[common], help="fetch a bundle from an OCI registry",
        epilog="example:\n  mindpack pull http://127.0.0.1:5000/models/digits:1.0.0 -o digits.mindie --allow-unsigned",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    pull.add_argument("url", metavar="URL", help="https://HOST/REPOSITORY:TAG or ...@sha256:DIGEST")
    pull.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the file to write (.mindie)")
    pull.set_defaults(run=_pull)
    for parser in (push, pull):
        parser.add_argument("--token-file", metavar="F|-", help=f"the registry's token (or {TOKEN_VARIABLE})")
        parser.add_argument("--allow-unsigned", action="store_true", help="accept a bundle that nobody signed")


def _diff(args: argparse.Namespace) -> int:
    from edge_contracts.archive import open_bundle
    from packager.bundle_difference import difference, lines

    told = difference(open_bundle(args.old).bundle, open_bundle(args.new).bundle)
    if args.json:
        print(msgspec.json.encode(told).decode())
    else:
        for line in lines(told):
            print(line)
    return 0


def _push(args: argparse.Namespace) -> int:
    from edge_contracts.archive import open_bundle
    from packager.distribution import push

    _accept_unsigned(args, str(args.bundle))
    archive = open_bundle(args.bundle)
    archive.verify()
    client = _client(args)
    tag = client.reference.tag or archive.bundle.spec.version.replace("+", "_")
    return _done(args, _reached(client, lambda: push(archive, client, tag, _say)), f"{args.url}: tag {tag}")


def _pull(args: argparse.Namespace) -> int:
    from packager.distribution import pull
    from packager.errors import RecipeRefused

    _accept_unsigned(args, args.url)
    client = _client(args)
    tag = client.reference.tag
    if tag is None:
        raise RecipeRefused("URL", "names no tag: https://HOST/REPOSITORY:TAG")
    return _done(args, _reached(client, lambda: pull(client, tag, args.output, _say)), str(args.output))


def _reached(client: Any, work: Any) -> Any:
    import requests

    from packager.errors import RegistryFailed

    try:
        return work()
    except requests.RequestException as error:
        kind = "does not answer in time" if isinstance(error, requests.Timeout) else "cannot be reached"
        raise RegistryFailed(client.reference.base, kind) from error
    finally:
        client.close()


def _client(args: argparse.Namespace) -> Any:
    from packager.registry_client import RegistryClient, parse_reference

    return RegistryClient(parse_reference(args.url), time.sleep, _token(args.token_file))


def _token(token_file: str | None) -> str | None:
    if token_file == "-":  # noqa: S105
        return sys.stdin.readline().strip() or None
    if token_file:
        return Path(token_file).read_text().strip() or None
    return os.environ.get(TOKEN_VARIABLE) or None


def _accept_unsigned(args: argparse.Namespace, what: str) -> None:
    """Raises UnsignedRefused unless it was accepted; then the warning is printed."""
    from packager.cli.inspect import UNSIGNED, red
    from packager.errors import UnsignedRefused

    if not args.allow_unsigned:
        raise UnsignedRefused(what, f" is {UNSIGNED}")
    print(red(UNSIGNED, sys.stderr.isatty()), file=sys.stderr)


def _done(args: argparse.Namespace, transfer: Any, what: str) -> int:
    if args.json:
        told = {"digest": transfer.digest, "sent": transfer.sent, "bytes": transfer.sent_bytes}
        print(msgspec.json.encode({**told, "present": transfer.present}).decode())
    else:
        there = f", {transfer.present} were there already" if transfer.present else ""
        print(f"{what}: {transfer.sent} blobs, {transfer.sent_bytes} bytes{there}; {transfer.digest}")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
