"""A device's row of a rollout in words, for CLI and TUI alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from edge_contracts.deployment import FAILURES
from fleet.domain.plain_words import state_text
from fleet.domain.wave import Tally
from fleet.http.api_types import RolloutDeviceView

_FAILED = frozenset(state.value for state in FAILURES)


def done_text(counts: Tally) -> str:
    """How many of how many have committed; where all have left the count again, how many those are."""
    if not counts.targeted and counts.withdrawn:
        return f"{counts.withdrawn:,} left"
    return f"{counts.succeeded:,}/{counts.targeted:,}"


def row_state(row: RolloutDeviceView) -> str:
    """The state; of a device that is sent back, how far it is with that."""
    if row.kind != "back":
        return state_text(row.state)
    if row.state == "committed":
        return "went back"
    return "not gone back" if row.state in _FAILED else "to go back" if row.state == "waiting" else "going back"


def without_sent_back(rows: Iterable[RolloutDeviceView]) -> list[RolloutDeviceView]:
    """Each device that is sent back by the row that says so only, not by that of its commit as well."""
    rows = list(rows)
    sent_back = {row.device for row in rows if row.kind == "back"}
    return [row for row in rows if row.kind == "back" or row.device not in sent_back]
