"""A table of any length: only the rows that are seen are made into words, and only rows that changed are repainted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models.columns import GAP, Column, Placed, place
from fleet.tui.view_models.spans import NOTHING, Cells, Line, Listing, Span, Tone
from fleet.tui.view_models.text_width import fit
from fleet.tui.widgets.painted import Painted

HEADER = 1


class RowTable(Painted):
    """The cursor stays on its row's key when rows come, go or change places; the first row has it at the start."""

    COMPONENT_CLASSES = {"row-table--cursor", "row-table--header"}  # noqa: RUF012 - Textual's own declaration
    DEFAULT_CSS = """
    RowTable {
        height: 1fr;
        & > .row-table--header { text-style: bold; background: $panel; color: $foreground; }
        & > .row-table--cursor { background: $surface-lighten-2; }
        &:focus > .row-table--cursor { background: $primary-muted; }
        &:nocolor > .row-table--header { text-style: bold underline; }
        &:nocolor > .row-table--cursor { text-style: underline; }
        &:nocolor:focus > .row-table--cursor { text-style: reverse; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", key_display="Enter"),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "go(0)", show=False),
        Binding("end,G", "go(-1)", show=False),
    ]
    cursor: reactive[int] = reactive(0, repaint=False)

    @dataclass
    class Opened(Message):
        """Enter, or a click on the row under the cursor."""

        key: str

    @dataclass
    class Moved(Message):
        """The cursor came to another row, or the row under it changed."""

        key: str | None

    @dataclass
    class TitleClicked(Message):
        """A click on a column's title."""

        column: str

    def __init__(
        self, columns: Sequence[Column], glyphs: Glyphs, empty: str = "asking the server", *, id: str | None = None  # noqa: A002
    ) -> None:  # fmt: skip
        super().__init__(id=id)
        self._columns = columns
        self._glyphs = glyphs
        self._empty = empty
        self._listing: Listing = NOTHING
        self._key: str | None = None
        self._placed: list[Placed] = []
        self._painted: dict[int, Cells] = {}
        self._needs: Mapping[str, int] = {}
        self._sorted_by: tuple[str, bool] | None = None

    @property
    def cursor_key(self) -> str | None:
        """The key of the row under the cursor; None: the table is empty."""
        return self._key

    def set_listing(self, listing: Listing) -> None:
        """Shows other rows, or the same with other content."""
        before, self._listing = self._listing, listing
        if len(before.keys) != len(listing.keys):
            self.virtual_size = Size(self.size.width, len(listing.keys) + HEADER)
            self.refresh()
        if listing.needs != self._needs:
            self._needs = listing.needs
            self._place()
        self._keep_cursor()
        self.post_message(self.Moved(self._key))
        for row, cells in list(self._painted.items()):
            if row >= len(listing.keys) or listing.cells_at(row) != cells:
                self._repaint(row)

    def set_empty(self, text: str) -> None:
        """What an empty table says."""
        if text != self._empty:
            self._empty = text
            self.refresh()

    def set_sorted_by(self, column: str, *, descending: bool) -> None:
        """Marks a column's title."""
        if self._sorted_by != (column, descending):
            self._sorted_by = (column, descending)
            self.refresh_line(self.scroll_offset.y)

    def _keep_cursor(self) -> None:
        keys = self._listing.keys
        if not keys:
            self._key, self.cursor = None, 0
            return
        if self._key is None or (self.cursor < len(keys) and keys[self.cursor] == self._key):
            self._key = keys[min(self.cursor, len(keys) - 1)]
            return
        try:
            position = keys.index(self._key)
        except ValueError:
            position = min(self.cursor, len(keys) - 1)
            self._key = keys[position]
        self.cursor = position

    def _repaint(self, row: int) -> None:
        self._painted.pop(row, None)
        self.refresh_line(row + HEADER)

    def watch_cursor(self, old: int, new: int) -> None:
        self._repaint(old)
        self._repaint(new)
        self._show_cursor()

    def _show_cursor(self) -> None:
        rows = self.size.height - HEADER
        top = self.scroll_offset.y
        if rows > 0 and not top <= self.cursor < top + rows:
            target = self.cursor if self.cursor < top else self.cursor - rows + 1
            self.scroll_to(y=target, animate=False, immediate=True)

    # --- keys and mouse ----------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        self._go(self.cursor + step)

    def action_page(self, direction: int) -> None:
        self._go(self.cursor + direction * max(1, self.size.height - HEADER - 1))

    def action_go(self, position: int) -> None:
        self._go(position if position >= 0 else len(self._listing.keys) - 1)

    def action_open(self) -> None:
        if self._key is not None:
            self.post_message(self.Opened(self._key))

    def _go(self, position: int) -> None:
        if self._listing.keys:
            position = max(0, min(len(self._listing.keys) - 1, position))
            self._key = self._listing.keys[position]
            self.cursor = position
            self.post_message(self.Moved(self._key))

    def on_click(self, event: events.Click) -> None:
        if event.y == 0:
            column = self._column_at(event.x)
            if column is not None:
                self.post_message(self.TitleClicked(column))
            return
        row = event.y - HEADER + self.scroll_offset.y
        if row < len(self._listing.keys):
            if row == self.cursor:
                self.action_open()
            else:
                self._go(row)

    def _column_at(self, x: int) -> str | None:
        left = 0
        for placed in self._placed:
            if left <= x < left + placed.width + GAP:
                return placed.column.key
            left += placed.width + GAP
        return None

    # --- painting ----------------------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002 - Textual's signature
        self._place()
        self.virtual_size = Size(self.size.width, len(self._listing.keys) + HEADER)
        self.call_after_refresh(self._show_cursor)

    def _place(self) -> None:
        self._placed = place(self._columns, self.scrollable_content_region.width, self._needs)
        self._painted.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self.strip(self._titles(), width, self._component("row-table--header"))
        row = y - HEADER + self.scroll_offset.y
        if row >= len(self._listing.keys):
            text = self._empty if row == 0 else ""
            return self.strip((Span(fit(text, width, self._glyphs), Tone.FAINT),), width)
        if len(self._painted) > 4 * max(1, self.size.height):
            self._painted.clear()
        cells = self._painted[row] = self._listing.cells_at(row)
        over = self._component("row-table--cursor") if row == self.cursor else None
        return self.strip(self._row(cells), width, over)

    def _component(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _titles(self) -> Line:
        titles = []
        for placed in self._placed:
            title = placed.column.title
            if self._sorted_by is not None and self._sorted_by[0] == placed.column.key:
                mark = self._glyphs.down if self._sorted_by[1] else self._glyphs.up
                title = mark + title if placed.column.right else (title[: placed.width - 1] + mark)
            titles.append(Span(title))
        return self._laid_out(titles)

    def _row(self, cells: Cells) -> Line:
        return self._laid_out([cells[placed.position] for placed in self._placed])

    def _laid_out(self, cells: Sequence[Span]) -> Line:
        spans: list[Span] = []
        for placed, cell in zip(self._placed, cells, strict=True):
            spans.append(Span(fit(cell.text, placed.width, self._glyphs, right=placed.column.right), cell.tone))
            spans.append(Span(" " * GAP))
        return tuple(spans[:-1])
