"""One rollout: its waves over its devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from fleet.tui.desk import Desk
from fleet.tui.fleet_api import FleetApi
from fleet.tui.messages import DeviceWanted
from fleet.tui.screens.live_screen import LiveScreen
from fleet.tui.screens.rollout_verbs import RolloutVerbs
from fleet.tui.view_models import rollout_devices
from fleet.tui.view_models.rollout_head import head_lines
from fleet.tui.view_models.rollout_rows import Rollout, with_signature
from fleet.tui.widgets.lines_pane import LinesPane
from fleet.tui.widgets.row_table import RowTable

_NO_DEVICES = "no devices yet: they are chosen when it starts"


class RolloutScreen(LiveScreen[Rollout], RolloutVerbs):
    """The verbs act on this rollout."""

    PAGE = "rollouts"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace", "app.close_page", "Back", key_display="Esc")]

    def __init__(self, desk: Desk, rollout: str) -> None:
        super().__init__(desk)
        self._rollout = rollout

    def question(self) -> Callable[[FleetApi], Rollout]:
        rollout = self._rollout
        return lambda client: with_signature([client.rollout(rollout)], client.bundles())[0]

    def body(self) -> Iterable[Widget]:
        yield LinesPane(id="head", classes="-as-needed")
        yield RowTable(rollout_devices.COLUMNS, self.desk.glyphs, id="rollout-devices")
        yield LinesPane(id="about")

    def on_mount(self) -> None:
        self.query_one("#rollout-devices", RowTable).focus()

    def show(self, answer: Rollout) -> None:
        now_ms, glyphs = self.desk.now_ms(), self.desk.glyphs
        self.query_one("#head", LinesPane).set_layout(lambda width: head_lines(answer, width, now_ms, glyphs))
        tail = next((wave.number for wave in answer.view.waves if wave.tail), None)
        table = self.query_one("#rollout-devices", RowTable)
        table.set_empty(_NO_DEVICES)
        table.set_listing(rollout_devices.listing(answer.view.devices, tail, now_ms, glyphs))
        self.follow_in_dialog()

    def chosen(self) -> Rollout | None:
        return self.answer

    def found(self, rollout: str) -> Rollout | None:
        return self.answer if self.answer is not None and self.answer.view.id == rollout else None

    @on(RowTable.Moved)
    def _moved(self, event: RowTable.Moved) -> None:
        rows = self.answer.view.devices if self.answer else []
        row = next((row for row in rows if rollout_devices.key_of(row) == event.key), None)
        about = self.query_one("#about", LinesPane)
        about.set_layout(lambda width: rollout_devices.about_lines(row, width) if row else [])

    @on(RowTable.Opened)
    def _opened(self, event: RowTable.Opened) -> None:
        self.post_message(DeviceWanted(rollout_devices.device_of(event.key)))
