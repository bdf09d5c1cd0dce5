"""How a command is registered: its help line, and at least one example, which ``--help`` shows as it is typed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def add_command(
    verbs: argparse._SubParsersAction[Any],
    name: str,
    summary: str,
    example: str,
    parents: Sequence[argparse.ArgumentParser] = (),
) -> argparse.ArgumentParser:
    """The parser of a command. ``example``: lines without ``mindfleet``; the command's own verbs may be among them."""
    lines = [f"  mindfleet {line}" for line in example.splitlines()]
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        parents=list(parents),
        help=summary,
        epilog="\n".join([f"example{'s' * (len(lines) > 1)}:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser
