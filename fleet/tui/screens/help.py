"""Keys and marks."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models.help_lines import help_lines
from fleet.tui.widgets.lines_pane import LinesPane
from fleet.tui.widgets.too_small import TooSmall


class HelpScreen(ModalScreen[None]):
    """Closes with Escape, q or ?."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "app.close_page", "Close")]

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        yield TooSmall()
        with Vertical(classes="dialog"):
            yield LinesPane(id="help")

    def on_mount(self) -> None:
        glyphs = self._glyphs
        pane = self.query_one("#help", LinesPane)
        pane.set_layout(lambda width: help_lines(width, glyphs))
        pane.focus()
