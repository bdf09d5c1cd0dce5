"""The fleet at a glance."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.widget import Widget

from fleet.tui.fleet_api import FleetApi
from fleet.tui.screens.live_screen import LiveScreen
from fleet.tui.view_models.overview import FleetAnswer, overview_lines
from fleet.tui.widgets.lines_pane import LinesPane


class OverviewScreen(LiveScreen[FleetAnswer]):
    """What needs attention, and counts."""

    PAGE = "fleet"

    def question(self) -> Callable[[FleetApi], FleetAnswer]:
        return lambda client: FleetAnswer(client.health(), client.devices(), client.rollouts())

    def body(self) -> Iterable[Widget]:
        yield LinesPane(id="overview")

    def show(self, answer: FleetAnswer) -> None:
        glyphs, is_old = self.desk.glyphs, self.trouble is not None
        pane = self.query_one("#overview", LinesPane)
        pane.set_layout(lambda width: overview_lines(answer, width, glyphs, is_old=is_old))
