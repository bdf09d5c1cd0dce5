"""A word to click that stands for a key."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.widgets import Static


class Choice(Static):
    """``label`` names the key; ``answer`` is what a click means."""

    @dataclass
    class Picked(Message):
        answer: bool

    def __init__(self, label: str, *, answer: bool) -> None:
        super().__init__(label, markup=False)
        self._answer = answer

    def on_click(self) -> None:
        self.post_message(self.Picked(self._answer))
