"""The keys that start, pause, resume, abort and roll back, for screens that show rollouts."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from fleet.tui.desk import Desk
from fleet.tui.messages import Said, VerbConfirmed
from fleet.tui.screens.confirm import ConfirmScreen
from fleet.tui.view_models.rollout_rows import Rollout
from fleet.tui.view_models.spans import Span, Tone, line
from fleet.tui.view_models.verbs import VERBS, objection, verb


class RolloutVerbs(Screen[None]):
    """``chosen``: the rollout that the keys act on; None: none is there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(each.key, f"ask_verb('{each.name}')", each.title, show=each.name != "rollback") for each in VERBS
    ]
    desk: Desk

    def chosen(self) -> Rollout | None:
        raise NotImplementedError

    def action_ask_verb(self, name: str) -> None:
        """Says why it cannot be done, or asks."""
        wanted, shown = verb(name), self.chosen()
        if shown is None:
            self.post_message(Said(line(Span(f"cannot {name}: no rollout is here", Tone.BUSY))))
            return
        why_not = objection(wanted, shown.view)
        if why_not is not None:
            self.post_message(Said(line(Span(why_not, Tone.BUSY))))
            return

        def decided(yes: bool | None) -> None:
            if yes:
                self.post_message(VerbConfirmed(wanted, shown.view))

        app: Any = self.app
        app.push_screen(ConfirmScreen(wanted, shown), decided)
