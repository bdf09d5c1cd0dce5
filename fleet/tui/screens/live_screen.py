"""A screen that shows an answer of the server, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

from fleet.tui.desk import Desk
from fleet.tui.fleet_api import FleetApi
from fleet.tui.messages import AskNow
from fleet.tui.view_models.connection import connection_line
from fleet.tui.view_models.spans import Line
from fleet.tui.widgets.lines_pane import LinesPane
from fleet.tui.widgets.masthead import Masthead
from fleet.tui.widgets.row_table import RowTable
from fleet.tui.widgets.status_line import StatusLine
from fleet.tui.widgets.too_small import TooSmall

Answer = TypeVar("Answer")


class LiveScreen(Screen[None], Generic[Answer]):
    """Subclasses say what to ask (``question``), what it looks like (``body``) and how an answer is shown (``show``).

    ``question`` is called here, what it returns runs in the thread of requests and touches no widget.
    """

    PAGE: ClassVar[str] = ""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f5", "ask_now", "Ask now", show=False)]

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.answer: Answer | None = None
        self.trouble: str | None = None
        """What is wrong with the server; None: nothing, what is shown is how it is."""
        self._answered_s: float | None = None
        self._built_of = 0

    def question(self) -> Callable[[FleetApi], Answer]:
        raise NotImplementedError

    def body(self) -> Iterable[Widget]:
        raise NotImplementedError

    def show(self, answer: Answer) -> None:
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        glyphs = self.desk.glyphs
        yield TooSmall()
        yield Masthead(self.PAGE, self.desk.server, glyphs)
        yield StatusLine(glyphs, id="connection")
        yield from self.body()
        yield StatusLine(glyphs, id="said")
        yield Footer(compact=True)

    @property
    def can_show(self) -> bool:
        """Its widgets are all there: not before it is built, not while it is taken down."""
        return 0 < self._built_of <= len(self.children) and self.is_attached

    def on_mount(self) -> None:
        self._built_of = len(self.children)
        if self.answer is not None:
            self.show(self.answer)

    def receive(self, answer: Answer, now_s: float) -> None:
        """An answer came."""
        self.answer = answer
        self._answered_s = now_s
        if self.can_show:
            self.show(answer)
            self.refresh_bindings()

    def show_link(self, trouble: str | None, now_s: float) -> None:
        """Says what is wrong with the server, and greys what is shown as long as it lasts."""
        if not self.can_show:
            return
        self.query_one("#connection", StatusLine).say(connection_line(trouble, self._answered_s, now_s))
        for widget in (*self.query(LinesPane), *self.query(RowTable)):
            widget.stale = trouble is not None
        is_news = (trouble is None) != (self.trouble is None)
        self.trouble = trouble
        if is_news and self.answer is not None:
            self.show(self.answer)

    def say(self, line: Line | None) -> None:
        """One line above the keys."""
        if self.can_show:
            self.query_one("#said", StatusLine).say(line)

    def on_screen_resume(self) -> None:
        self.post_message(AskNow())

    def action_ask_now(self) -> None:
        self.post_message(AskNow())
