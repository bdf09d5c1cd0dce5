"""The last pass over every line before it reaches the terminal: no colours, or nothing but ASCII."""

from __future__ import annotations

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_DRAWN = {
    **dict.fromkeys("─━═╌╍┄┅▁▂▔▀▄", "-"),
    **dict.fromkeys("│┃║▏▎▍▌▐▕▊▉", "|"),
    **dict.fromkeys("┌┐└┘╭╮╰╯┏┓┗┛├┤┬┴┼▛▜▙▟╔╗╚╝", "+"),
    **dict.fromkeys("█▓▇▆▅", "#"),
    "\N{MULTIPLICATION SIGN}": "x", "\N{RIGHT SINGLE QUOTATION MARK}": "'", "\N{NO-BREAK SPACE}": " ",
    "…": "~", "·": "-", "•": "*", "●": "*", "○": "o", "✓": "+", "✗": "x", "“": '"', "”": '"',
    "→": ">", "←": "<", "↑": "^", "↓": "v", "▲": "^", "▼": "v", "▶": ">", "▸": ">", "≥": ">", "≤": "<",
}  # fmt: skip


class NoColours(LineFilter):
    """Bold, dim and reverse stay; no colour is left, not even the terminal's default by name."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [
            Segment(text, None if style is None else style.without_color, control)
            for text, style, control in segments
        ]  # fmt: skip


class AsciiOnly(LineFilter):
    """Whatever is still not ASCII becomes something of the same width: a drawn line, or question marks."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [
            segment if segment.text.isascii() else Segment(to_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def to_ascii(text: str) -> str:
    """ASCII text as wide as ``text``."""
    return "".join(c if c.isascii() else _DRAWN.get(c) or "?" * get_character_cell_size(c) for c in text)
