"""One bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from fleet.tui.desk import Desk
from fleet.tui.fleet_api import FleetApi
from fleet.tui.screens.live_screen import LiveScreen
from fleet.tui.view_models.bundle_page import BundleAnswer, bundle_lines
from fleet.tui.widgets.lines_pane import LinesPane


class BundleScreen(LiveScreen[BundleAnswer]):
    """Variants, what was left out, who serves it."""

    PAGE = "bundles"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace", "app.close_page", "Back", key_display="Esc")]

    def __init__(self, desk: Desk, name: str, version: str) -> None:
        super().__init__(desk)
        self._bundle = (name, version)

    def question(self) -> Callable[[FleetApi], BundleAnswer]:
        name, version = self._bundle
        return lambda client: BundleAnswer(client.bundle(name, version), client.devices())

    def body(self) -> Iterable[Widget]:
        yield LinesPane(id="bundle")

    def show(self, answer: BundleAnswer) -> None:
        now_ms, glyphs = self.desk.now_ms(), self.desk.glyphs
        self.query_one("#bundle", LinesPane).set_layout(lambda width: bundle_lines(answer, width, now_ms, glyphs))
