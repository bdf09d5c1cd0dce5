"""How commands print: results on stdout (tables, or one JSON document), progress and warnings on stderr."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TextIO

import msgspec


def print_json(document: Any) -> None:
    """One document."""
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def moment(ms: int | None) -> str | None:
    """A point in time in this machine's zone, "2026-03-17 14:02:07"; None stays None."""
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "?"


def red(text: str, stream: TextIO | None = None) -> str:
    """``text`` in red where the stream is a terminal and NO_COLOR is not set."""
    stream = stream or sys.stderr
    coloured = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[31m{text}\x1b[0m" if coloured else text


class ProgressLine:
    """One line on stderr that is written over and over; where that is no terminal, nothing."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self._title = title
        self._stream = stream or sys.stderr
        self._shown = ""

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\r" + " " * len(self._shown) + "\r")
            self._stream.flush()

    def show(self, done_bytes: int, total_bytes: int) -> None:
        """``done_bytes`` of ``total_bytes`` are through."""
        share = 100 * done_bytes // max(1, total_bytes)
        line = f"{self._title}: {share:3} % of {total_bytes / 1e6:.2f} MB"
        if line != self._shown and self._stream.isatty():
            self._stream.write("\r" + line)
            self._stream.flush()
            self._shown = line


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest cell."""
    cells = [list(header), *([_text(value) for value in row] for row in rows)]
    widths = [max(_width(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        line = "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        print(_encodable(line.rstrip()))


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else " ".join(str(value).split())


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def _encodable(text: str) -> str:
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)
