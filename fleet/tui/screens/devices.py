"""All devices in a table: search, sort, open."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from fleet.http.api_types import DeviceView
from fleet.tui.desk import Desk
from fleet.tui.fleet_api import FleetApi
from fleet.tui.messages import DeviceWanted
from fleet.tui.screens.live_screen import LiveScreen
from fleet.tui.view_models import device_rows
from fleet.tui.view_models.device_caption import caption
from fleet.tui.widgets.lines_pane import LinesPane
from fleet.tui.widgets.row_table import RowTable
from fleet.tui.widgets.search_box import SearchBox
from fleet.tui.widgets.status_line import StatusLine

_NO_DEVICE = "no device yet: `mindfleet token create`, then `mindie enroll` on the device"
_SORTABLE = [column.key for column in device_rows.COLUMNS]


class DevicesScreen(LiveScreen[list[DeviceView]]):
    """``search`` and the sort order stay while the screen lives."""

    PAGE = "devices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("S,upper_s", "turn_round", "Turn round", key_display="S"),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.search = ""
        self._column = "device"
        self._descending = False
        self._entries: dict[str, device_rows.Entry] = {}

    def question(self) -> Callable[[FleetApi], list[DeviceView]]:
        return lambda client: client.devices()

    def body(self) -> Iterable[Widget]:
        yield StatusLine(self.desk.glyphs, id="caption")
        yield SearchBox()
        yield RowTable(device_rows.COLUMNS, self.desk.glyphs, id="devices")
        yield LinesPane(id="about")

    def on_mount(self) -> None:
        self.query_one("#devices", RowTable).focus()

    def show(self, answer: list[DeviceView]) -> None:
        every = device_rows.entries(answer)
        found = device_rows.matching(every, self.search)
        found = device_rows.ordered(found, self._column, descending=self._descending)
        self._entries = {entry.key: entry for entry in found}
        table = self.query_one("#devices", RowTable)
        table.set_empty("no device has all these words; Escape in the search clears it" if self.search else _NO_DEVICE)
        table.set_sorted_by(self._column, descending=self._descending)
        table.set_listing(device_rows.listing(found, self.desk.now_ms(), self.desk.glyphs))
        shown = {entry.device.id for entry in found}
        self.query_one("#caption", StatusLine).say(caption(answer, shown, self.search, self._order_text()))

    def _order_text(self) -> str:
        title = next(column.title for column in device_rows.COLUMNS if column.key == self._column)
        return f"by {(title or 'online').lower()}{', turned round' if self._descending else ''}"

    def _show_again(self) -> None:
        if self.answer is not None and self.can_show:
            self.show(self.answer)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """While the search is typed its letters are no keys."""
        return not (action in ("search", "sort", "turn_round") and any(box.has_focus for box in self.query(SearchBox)))

    def action_search(self) -> None:
        if self.can_show:
            self.query_one(SearchBox).open()

    def action_sort(self) -> None:
        self._sort_by(_SORTABLE[(_SORTABLE.index(self._column) + 1) % len(_SORTABLE)])

    def action_turn_round(self) -> None:
        self._descending = not self._descending
        self._show_again()

    def _sort_by(self, column: str) -> None:
        self._column, self._descending = column, False
        self._show_again()

    @on(Input.Changed)
    def _searched(self, event: Input.Changed) -> None:
        self.search = event.value
        self._show_again()

    @on(SearchBox.Left)
    def _search_left(self, event: SearchBox.Left) -> None:
        self.search = event.text
        self._show_again()
        self.query_one("#devices", RowTable).focus()

    @on(RowTable.TitleClicked)
    def _title_clicked(self, event: RowTable.TitleClicked) -> None:
        if event.column == self._column:
            self.action_turn_round()
        else:
            self._sort_by(event.column)

    @on(RowTable.Moved)
    def _moved(self, event: RowTable.Moved) -> None:
        found, now_ms = self._entries.get(event.key or ""), self.desk.now_ms()
        about = self.query_one("#about", LinesPane)
        about.set_layout(lambda width: device_rows.about_lines(found, width, now_ms) if found else [])

    @on(RowTable.Opened)
    def _opened(self, event: RowTable.Opened) -> None:
        self.post_message(DeviceWanted(device_rows.device_of(event.key)))
