"""What commands print: progress to stderr, one JSON document to stdout, red where somebody must look."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import msgspec

RED = "\x1b[1;31m"
END = "\x1b[0m"


def has_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """A terminal that can, and a user who did not say no: NO_COLOR counts when it is not empty (no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def red(text: str, stream: TextIO) -> str:
    """``text`` in red where the stream shows colours."""
    return f"{RED}{text}{END}" if has_color(stream, os.environ) else text


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def warn_unsigned(name: str) -> None:
    """Everywhere an unsigned bundle is taken."""
    say(red(f"UNSIGNED: nobody vouches for {name}", sys.stderr))


def print_json(document: Any) -> None:
    """Exactly one document."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def examples(text: str) -> str:
    """For the end of a command's help."""
    return f"example:\n  {text}"
