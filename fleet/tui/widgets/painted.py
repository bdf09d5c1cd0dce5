"""What tables and pages have in common: lines of spans become strips, tones become styles."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from fleet.tui.view_models.spans import Line, Tone
from fleet.tui.view_models.text_width import clean


class Painted(ScrollView, can_focus=True):
    """Draws only the lines that are seen. ``stale`` greys everything: the server is away and this is old."""

    COMPONENT_CLASSES = {f"tone--{tone.value}" for tone in Tone}  # noqa: RUF012 - Textual's own declaration
    DEFAULT_CSS = """
    Painted {
        scrollbar-size: 0 1;
        scrollbar-gutter: stable;
        overflow-x: hidden;
        & > .tone--strong { text-style: bold; }
        & > .tone--faint { text-style: dim; }
        & > .tone--good { color: $text-success; }
        & > .tone--busy { color: $text-warning; }
        & > .tone--bad { color: #ff6b6b; text-style: bold; }
        &:light > .tone--bad { color: $error; }
    }
    """
    stale: reactive[bool] = reactive(False)

    def watch_stale(self) -> None:
        self.refresh()

    def tone_style(self, tone: Tone) -> Style:
        """Only what the tone sets: the background stays the line's."""
        shown = Tone.FAINT if self.stale else tone
        return self.get_component_rich_style(f"tone--{shown.value}", partial=True)

    def strip(self, line: Line, width: int, over: Style | None = None) -> Strip:
        """``line`` on the widget's background, exactly ``width`` cells; ``over`` is laid over all of it."""
        base = self.rich_style + over if over else self.rich_style
        segments, used = [], 0
        for span in line:
            text = clean(span.text)
            style = self.rich_style + self.tone_style(span.tone)
            segments.append(Segment(text, style + over if over else style))
            used += cell_len(text)
        if used < width:
            segments.append(Segment(" " * (width - used), base))
        return Strip(segments).adjust_cell_length(width, base)
