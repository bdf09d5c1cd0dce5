"""Text with a meaning: what widgets paint. A tone says what a text means; the widget knows the colour."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class Tone(enum.Enum):
    """Every tone goes with a word or mark that says the same: colour is never the only sign."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    BUSY = "busy"
    BAD = "bad"


class Span(NamedTuple):
    """A piece of a line, or the content of a table's cell."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]
Cells = tuple[Span, ...]
BLANK: Line = ()


class Listing(NamedTuple):
    """Rows of a table, in order. ``cells_at`` is called for visible rows only, so that length costs nothing.

    needs: the widest content of some columns, by key; others have their fixed widths.
    """

    keys: Sequence[str]
    cells_at: Callable[[int], Cells]
    needs: Mapping[str, int] = {}


NOTHING = Listing((), lambda _position: ())


def line(*pieces: Span | str) -> Line:
    """A line; plain strings are PLAIN."""
    return tuple(piece if isinstance(piece, Span) else Span(piece) for piece in pieces)


def plain_text(spans: Sequence[Span]) -> str:
    """The line without tones."""
    return "".join(span.text for span in spans)
