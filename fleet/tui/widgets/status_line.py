"""One line that is there only when it has something to say."""

from __future__ import annotations

from rich.cells import cell_len
from textual.strip import Strip

from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models.spans import BLANK, Line, Span
from fleet.tui.view_models.text_width import cut
from fleet.tui.widgets.painted import Painted


class StatusLine(Painted, can_focus=False):
    """Hidden while empty; too long a text ends in an ellipsis."""

    DEFAULT_CSS = """
    StatusLine {
        height: 1;
        scrollbar-size: 0 0;
        padding: 0 1;
        display: none;
        background: $panel;
        &.-speaks { display: block; }
    }
    """

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._glyphs = glyphs
        self.line: Line = BLANK

    def say(self, line: Line | None) -> None:
        """None or an empty line hides it."""
        if (line or BLANK) != self.line:
            self.line = line or BLANK
            self.set_class(bool(self.line), "-speaks")
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - it has one line
        width, left = self.size.width, self.size.width
        spans = []
        for span in self.line:
            text = cut(span.text, left, self._glyphs)
            spans.append(Span(text, span.tone))
            left -= cell_len(text)
        return self.strip(tuple(spans), width)
