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
from fleet.tui.view_models.wording import state_text


class RolloutVerbs(Screen[None]):
    """``chosen``: the rollout that the keys act on; None: none is there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(each.key, f"ask_verb('{each.name}')", each.title) for each in VERBS),
        *(Binding(each.key, f"object_to('{each.name}')", each.title, show=False) for each in VERBS),
    ]
    """Each key twice: what is possible is shown and asks; of the rest the key says why it is not."""
    desk: Desk

    def chosen(self) -> Rollout | None:
        raise NotImplementedError

    def found(self, rollout: str) -> Rollout | None:
        """The rollout of that id in the newest answer."""
        raise NotImplementedError

    def follow_in_dialog(self) -> None:
        """An open question goes with the rollout: other numbers, or no question any more."""
        dialog = self.app.screen
        if not isinstance(dialog, ConfirmScreen) or not dialog.is_mounted:
            return
        shown = self.found(dialog.rollout_id)
        if not dialog.follow(shown):
            what = "it is gone" if shown is None else f"{shown.view.name} is {state_text(shown.view.state)} now"
            self.post_message(Said(line(Span(f"the question is closed: {what}", Tone.BUSY))))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only verbs that are possible now are there."""
        if action != "ask_verb":
            return super().check_action(action, parameters)
        shown = self.chosen()
        return shown is not None and parameters[0] in shown.view.verbs

    def action_object_to(self, name: str) -> None:
        self.action_ask_verb(name)

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
