"""The race in a terminal while it runs: bars by candidate, rounds, time left. Plain ANSI, redrawn in place."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import TextIO

from agent.selection.request import RaceView

MIN_COLUMNS = 40
MAX_LINES = 14
NAME_COLUMNS = 36
PERIOD_S = 0.15
CLEAR_LINE, CLEAR_BELOW = "\x1b[2K", "\x1b[0J"
_MARKS = {
    "racing": " ", "chosen": "*", "raced": " ", "halved": "-", "not_tried": "-", "refused": "x", "quarantined": "!",
}  # fmt: skip


class LiveDisplay:
    """Writes to ``stream``; ``close`` takes the picture away. One thread."""

    def __init__(self, stream: TextIO, columns: Callable[[], int], clock: Callable[[], float]) -> None:
        self._stream = stream
        self._columns = columns
        self._clock = clock
        self._drawn = 0
        self._last = float("-inf")

    def show(self, view: RaceView) -> None:
        """Redraw, at most every PERIOD_S seconds."""
        if self._clock() - self._last < PERIOD_S:
            return
        self._last = self._clock()
        lines = picture(view, self._columns(), _is_unicode(self._stream))
        self._stream.write(self._back() + "".join(f"{CLEAR_LINE}{line}\n" for line in lines) + CLEAR_BELOW)
        self._stream.flush()
        self._drawn = len(lines)

    def close(self) -> None:
        """Leave the terminal as it was before the first picture."""
        self._stream.write(self._back() + CLEAR_BELOW)
        self._stream.flush()
        self._drawn = 0

    def _back(self) -> str:
        return f"\x1b[{self._drawn}F" if self._drawn else ""


def is_wanted(stream: TextIO, environ: Mapping[str, str], columns: int) -> bool:
    """A terminal that can move its cursor, wide enough, and a user who did not say NO_COLOR (empty is not set)."""
    can = stream.isatty() and environ.get("TERM", "dumb") != "dumb" and not environ.get("NO_COLOR")
    return can and columns >= MIN_COLUMNS


def picture(view: RaceView, columns: int, unicode: bool) -> list[str]:
    """The lines, none wider than ``columns``: pure. Bars are longest for the slowest shown."""
    full, empty = ("█", "░") if unicode else ("#", ".")
    name_columns = min(NAME_COLUMNS, columns // 2)
    bar_columns = max(4, columns - name_columns - 18)
    shown = view.lines[:MAX_LINES]
    slowest = max((p90 for _, _, p90 in shown if p90 is not None), default=1.0) or 1.0
    left_s = max(0.0, view.budget_s - view.elapsed_s)
    done = min(1.0, view.elapsed_s / view.budget_s) if view.budget_s > 0 else 1.0
    progress = full * int(done * bar_columns) + empty * (bar_columns - int(done * bar_columns))
    lines = [f"{fitted(f'{view.stage}, round {view.rounds}', name_columns)}   {progress} {left_s:5.1f} s left"]
    for name, status, p90_ms in shown:
        length = 0 if p90_ms is None else max(1, round(p90_ms / slowest * bar_columns))
        bar = full * length + " " * (bar_columns - length)
        value = f"{p90_ms:9.3f} ms" if p90_ms is not None else f"{status:>12}"
        lines.append(f"{_MARKS.get(status, ' ')} {fitted(name, name_columns)} {bar} {value}")
    if len(view.lines) > MAX_LINES:
        lines.append(f"  and {len(view.lines) - MAX_LINES} more")
    return [fitted(line, columns).rstrip() for line in lines]


def fitted(text: str, columns: int) -> str:
    """``text`` cut or filled with spaces to exactly ``columns`` terminal cells; control characters are left out."""
    kept, used = [], 0
    for character in text:
        if unicodedata.category(character).startswith("C"):
            continue
        width = _cells(character)
        if used + width > columns:
            break
        kept.append(character)
        used += width
    return "".join(kept) + " " * (columns - used)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_unicode(stream: TextIO) -> bool:
    try:
        "█░".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
