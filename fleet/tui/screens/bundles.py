"""All bundles in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual import on
from textual.widget import Widget

from fleet.tui.fleet_api import FleetApi
from fleet.tui.messages import BundleWanted
from fleet.tui.screens.live_screen import LiveScreen
from fleet.tui.view_models import bundle_rows
from fleet.tui.view_models.bundle_rows import BundlesAnswer
from fleet.tui.widgets.row_table import RowTable

_NO_BUNDLE = "no bundle yet: `mindfleet bundle push FILE` brings one"


class BundlesScreen(LiveScreen[BundlesAnswer]):
    """What is registered, and how many devices say that they serve it."""

    PAGE = "bundles"

    def question(self) -> Callable[[FleetApi], BundlesAnswer]:
        return lambda client: BundlesAnswer(client.bundles(), client.devices())

    def body(self) -> Iterable[Widget]:
        yield RowTable(bundle_rows.COLUMNS, self.desk.glyphs, id="bundles")

    def on_mount(self) -> None:
        self.query_one("#bundles", RowTable).focus()

    def show(self, answer: BundlesAnswer) -> None:
        table = self.query_one("#bundles", RowTable)
        table.set_empty(_NO_BUNDLE)
        table.set_listing(bundle_rows.listing(answer, self.desk.now_ms()))

    @on(RowTable.Opened)
    def _opened(self, event: RowTable.Opened) -> None:
        bundles = self.answer.bundles if self.answer else []
        for bundle in bundles:
            if bundle_rows.key_of(bundle) == event.key:
                self.post_message(BundleWanted(bundle.name, bundle.version))
