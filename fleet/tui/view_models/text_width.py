"""Text into a number of terminal cells: wide characters take two, combining marks none. Pure."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, set_cell_size

from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models.spans import Line, Span, Tone

_FORMAT, _SURROGATE = "Cf", "Cs"


def clean(text: str) -> str:
    """Without what could move the cursor or reorder the line: names and reasons come from devices."""
    if text.isprintable():
        return text
    return "".join(_clean_character(character) for character in text)


def _clean_character(character: str) -> str:
    if character.isprintable():
        return character
    category = unicodedata.category(character)
    if category == _FORMAT:
        return ""
    return "?" if category == _SURROGATE else " "


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """At most ``width`` cells; what is missing is shown by an ellipsis."""
    text = clean(text)
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    return set_cell_size(text, width - 1) + glyphs.ellipsis


def fit(text: str, width: int, glyphs: Glyphs, *, right: bool = False) -> str:
    """Exactly ``width`` cells."""
    text = cut(text, width, glyphs)
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` cells, broken at spaces where there are any. At least one line."""
    lines, current = [], ""
    for word in clean(text).split():
        candidate = f"{current} {word}" if current else word
        if cell_len(candidate) <= width:
            current = candidate
            continue
        if current:
            lines.append(current)
        while cell_len(word) > max(2, width):
            head = set_cell_size(word, max(2, width)).rstrip()
            lines.append(head)
            word = word[len(head):]  # fmt: skip
        current = word
    return [*lines, current] if current or not lines else lines


def paragraph(head: Line, text: str, width: int, tone: Tone = Tone.PLAIN, hanging: int | None = None) -> list[Line]:
    """``head``, then ``text`` wrapped; its further lines begin under its first, or ``hanging`` cells in."""
    text = " ".join(clean(text).split())
    indent = sum(cell_len(span.text) for span in head)
    further = indent if hanging is None else hanging
    if width - indent < 12:
        further = min(2, further)
        return [head, *(_indented(further, part, tone) for part in wrap(text, width - further))]
    first, *rest = wrap(text, width - indent)
    if rest and further != indent:
        rest = wrap(text[len(first):], width - further)  # fmt: skip
    return [(*head, Span(first, tone)), *(_indented(further, part, tone) for part in rest)]


def _indented(indent: int, text: str, tone: Tone) -> Line:
    return (Span(" " * indent), Span(text, tone))
