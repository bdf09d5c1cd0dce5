"""Asks before a verb is sent."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen

from fleet.tui.terminal import is_too_small
from fleet.tui.view_models.rollout_rows import Rollout
from fleet.tui.view_models.verbs import Verb, question_lines
from fleet.tui.widgets.choice import Choice
from fleet.tui.widgets.lines_pane import LinesPane
from fleet.tui.widgets.too_small import TooSmall


class ConfirmScreen(ModalScreen[bool]):
    """Closes with True only for a clear yes, and only when what will happen could be read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "decide(True)", "Yes"),
        Binding("n,escape", "decide(False)", "No"),
    ]

    def __init__(self, verb: Verb, rollout: Rollout) -> None:
        super().__init__()
        self._verb = verb
        self._rollout = rollout

    def compose(self) -> ComposeResult:
        yield TooSmall()
        with Vertical(classes="dialog"):
            yield LinesPane(id="question")
            with Horizontal(classes="choices"):
                yield Choice(f"y {self._verb.title}", answer=True)
                yield Choice("n Do nothing", answer=False)

    def on_mount(self) -> None:
        verb, rollout = self._verb, self._rollout
        self.query_one("#question", LinesPane).set_layout(lambda width: question_lines(verb, rollout, width))

    def follow(self, shown: Rollout | None) -> bool:
        """The rollout as it is now. False, and closed with a no, when the verb has no place any more."""
        if shown is None or self._verb.name not in shown.view.verbs:
            self.dismiss(False)
            return False
        self._rollout = shown
        verb = self._verb
        self.query_one("#question", LinesPane).set_layout(lambda width: question_lines(verb, shown, width))
        return True

    @property
    def rollout_id(self) -> str:
        return self._rollout.view.id

    def action_decide(self, yes: bool) -> None:
        if yes and is_too_small(*self.app.size):
            return
        self.dismiss(yes)

    @on(Choice.Picked)
    def _picked(self, event: Choice.Picked) -> None:
        self.dismiss(event.answer)
