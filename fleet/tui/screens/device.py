"""One device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from fleet.http.api_types import DeviceDetail
from fleet.tui.desk import Desk
from fleet.tui.fleet_api import FleetApi
from fleet.tui.screens.live_screen import LiveScreen
from fleet.tui.view_models.device_facts import device_lines
from fleet.tui.widgets.lines_pane import LinesPane


class DeviceScreen(LiveScreen[DeviceDetail]):
    """Facts, what serves and why, events."""

    PAGE = "devices"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace", "app.close_page", "Back", key_display="Esc")]

    def __init__(self, desk: Desk, device: str) -> None:
        super().__init__(desk)
        self._device = device

    def question(self) -> Callable[[FleetApi], DeviceDetail]:
        device = self._device
        return lambda client: client.device(device)

    def body(self) -> Iterable[Widget]:
        yield LinesPane(id="device")

    def show(self, answer: DeviceDetail) -> None:
        now_ms, glyphs, zone = self.desk.now_ms(), self.desk.glyphs, self.desk.zone
        self.query_one("#device", LinesPane).set_layout(lambda width: device_lines(answer, width, now_ms, glyphs, zone))
