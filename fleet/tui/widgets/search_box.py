"""The search field over a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class SearchBox(Input):
    """Enter keeps the search and goes back to the table; Escape gives the search up."""

    DEFAULT_CSS = """
    SearchBox { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    SearchBox.-open { display: block; }
    SearchBox:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", "Clear", show=True),
        Binding("down", "submit", show=False),
    ]

    @dataclass
    class Left(Message):
        """``text``: what to search for from now on."""

        text: str

    def __init__(self) -> None:
        super().__init__(placeholder="words that must all be there; Enter keeps, Escape clears", compact=True)

    def open(self) -> None:
        self.add_class("-open")
        self.focus()

    def action_give_up(self) -> None:
        self.value = ""
        self._leave()

    async def action_submit(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self.set_class(bool(self.value), "-open")
        self.post_message(self.Left(self.value))
