"""All rollouts in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual import on
from textual.widget import Widget

from fleet.tui.fleet_api import FleetApi
from fleet.tui.messages import RolloutWanted
from fleet.tui.screens.live_screen import LiveScreen
from fleet.tui.screens.rollout_verbs import RolloutVerbs
from fleet.tui.view_models import rollout_rows
from fleet.tui.view_models.rollout_rows import Rollout, about_lines, with_signature
from fleet.tui.widgets.lines_pane import LinesPane
from fleet.tui.widgets.row_table import RowTable

_NO_ROLLOUT = "no rollout yet: `mindfleet rollout create` makes one"


class RolloutsScreen(LiveScreen[list[Rollout]], RolloutVerbs):
    """The verbs act on the rollout under the cursor."""

    PAGE = "rollouts"

    def question(self) -> Callable[[FleetApi], list[Rollout]]:
        return lambda client: with_signature(client.rollouts(), client.bundles())

    def body(self) -> Iterable[Widget]:
        yield RowTable(rollout_rows.COLUMNS, self.desk.glyphs, id="rollouts")
        yield LinesPane(id="about")

    def on_mount(self) -> None:
        self.query_one("#rollouts", RowTable).focus()

    def show(self, answer: list[Rollout]) -> None:
        table = self.query_one("#rollouts", RowTable)
        table.set_empty(_NO_ROLLOUT)
        table.set_listing(rollout_rows.listing(answer, self.desk.now_ms(), self.desk.glyphs))
        self.follow_in_dialog()

    def chosen(self) -> Rollout | None:
        if not self.can_show:
            return None
        key = self.query_one("#rollouts", RowTable).cursor_key
        return None if key is None else self.found(key)

    def found(self, rollout: str) -> Rollout | None:
        return next((each for each in self.answer or [] if each.view.id == rollout), None)

    @on(RowTable.Moved)
    def _moved(self) -> None:
        shown, glyphs = self.chosen(), self.desk.glyphs
        about = self.query_one("#about", LinesPane)
        about.set_layout(lambda width: about_lines(shown.view, width, glyphs) if shown else [])
        self.refresh_bindings()

    @on(RowTable.Opened)
    def _opened(self, event: RowTable.Opened) -> None:
        self.post_message(RolloutWanted(event.key))
