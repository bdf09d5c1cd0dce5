"""A page of lines, laid out anew for every width, that scrolls."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Size
from textual.strip import Strip

from fleet.tui.view_models.spans import BLANK, Line
from fleet.tui.widgets.painted import Painted

Layout = Callable[[int], list[Line]]


def _nothing(width: int) -> list[Line]:  # noqa: ARG001 - the layout of an empty page
    return []


class LinesPane(Painted):
    """``set_layout`` gives what to show: a function from a width to lines that fit it."""

    DEFAULT_CSS = """
    LinesPane {
        height: 1fr;
        padding: 0 1;
        &.-as-needed { height: auto; max-height: 60%; }
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id, classes=classes)
        self._layout_lines: Layout = _nothing
        self._lines: list[Line] = []

    def set_layout(self, layout: Layout) -> None:
        """Shows ``layout``; keeps the place one has scrolled to and repaints only lines that changed."""
        self._layout_lines = layout
        self._lay_out()

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002 - Textual's signature
        self._lay_out()

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        if width < 1:
            return
        before, self._lines = self._lines, self._layout_lines(width)
        if len(before) != len(self._lines):
            self.virtual_size = Size(width, len(self._lines))
            self.refresh(layout=True)
            return
        for number, (old, new) in enumerate(zip(before, self._lines, strict=True)):
            if old != new:
                self.refresh_line(number)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return len(self._layout_lines(max(1, width - self.scrollbar_size_vertical)))

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        return self.strip(self._lines[number] if number < len(self._lines) else BLANK, self.size.width)
