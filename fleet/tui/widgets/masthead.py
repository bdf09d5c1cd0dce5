"""The top line: the pages, of which one is shown, and the server's address."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.strip import Strip

from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models.spans import Line, Span, Tone
from fleet.tui.view_models.text_width import cut
from fleet.tui.widgets.painted import Painted

PAGES = (
    ("1", "fleet", "Fleet"),
    ("2", "devices", "Devices"),
    ("3", "rollouts", "Rollouts"),
    ("4", "bundles", "Bundles"),
)


class Masthead(Painted, can_focus=False):
    """``page``: the one that is shown."""

    COMPONENT_CLASSES = {"masthead--here"}  # noqa: RUF012 - Textual's own declaration
    DEFAULT_CSS = """
    Masthead {
        height: 1;
        dock: top;
        scrollbar-size: 0 0;
        background: $panel;
        & > .masthead--here { text-style: bold reverse; }
    }
    """

    @dataclass
    class PageWanted(Message):
        """A click on a page's name."""

        page: str

    def __init__(self, page: str, server: str, glyphs: Glyphs) -> None:
        super().__init__()
        self._page = page
        self._server = server.removeprefix("http://")
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - it has one line
        return self._tabs().adjust_cell_length(self.size.width, self.rich_style)

    def _tabs(self) -> Strip:
        here = self.get_component_rich_style("masthead--here", partial=True)
        strips = [
            self.strip((Span(f" {key} {title} "),), len(title) + 4, here if page == self._page else None)
            for key, page, title in PAGES
        ]
        used = sum(strip.cell_length for strip in strips)
        room = self.size.width - used - 2
        server: Line = (Span(f" {cut(self._server, room, self._glyphs)} ".rjust(room + 2), Tone.FAINT),)
        return Strip.join([*strips, self.strip(server, room + 2)] if room > 8 else strips)

    def on_click(self, event: events.Click) -> None:
        left = 0
        for _, page, title in PAGES:
            if left <= event.x < left + len(title) + 4:
                self.post_message(self.PageWanted(page))
            left += len(title) + 4
