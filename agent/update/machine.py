"""The states of one deployment as one pure table. Power loss is an event like any other.

queued ─► downloading ─► verifying ─► installing ─► probing ─► trial ─► committed
   └─────────────────────── a pinned bundle comes back ────────►┘
Every state in flight answers every outcome; a terminal state answers none.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from edge_contracts.deployment import IN_FLIGHT, DeploymentState

S = DeploymentState


class Event(enum.Enum):
    """What can happen to a deployment."""

    STARTED = "started"
    DOWNLOADED = "downloaded"
    VERIFIED = "verified"
    INSTALLED = "installed"
    CHOSEN = "chosen"
    PROVEN = "proven"
    PINNED = "pinned"  # the wish is a bundle that is kept here and was verified when it came
    ALREADY_ACTIVE = "already_active"
    REMOVED = "removed"  # the wish is to have no bundle
    FAILED = "failed"  # the bundle or an effect failed and nothing had been switched
    REJECTED = "rejected"  # policy or compatibility forbids it
    REVERTED = "reverted"  # it had been switched in and the former state is back
    REVERT_FAILED = "revert_failed"
    TIMED_OUT = "timed_out"
    SUPERSEDED = "superseded"
    CANCELED = "canceled"
    POWER_RETURNED = "power_returned"
    POWER_LOST_AGAIN = "power_lost_again"  # as often in this state that the deployment itself is suspect


FORWARD: Mapping[tuple[S, Event], S] = MappingProxyType(
    {
        (S.QUEUED, Event.STARTED): S.DOWNLOADING,
        (S.QUEUED, Event.PINNED): S.TRIAL,
        (S.QUEUED, Event.ALREADY_ACTIVE): S.COMMITTED,
        (S.QUEUED, Event.REMOVED): S.COMMITTED,
        (S.DOWNLOADING, Event.DOWNLOADED): S.VERIFYING,
        (S.VERIFYING, Event.VERIFIED): S.INSTALLING,
        (S.INSTALLING, Event.INSTALLED): S.PROBING,
        (S.PROBING, Event.CHOSEN): S.TRIAL,
        (S.TRIAL, Event.PROVEN): S.COMMITTED,
    }
)
"""The one way on from each state."""

OUTCOMES: Mapping[Event, S] = MappingProxyType(
    {
        Event.FAILED: S.FAILED,
        Event.REJECTED: S.REJECTED,
        Event.REVERTED: S.ROLLED_BACK,
        Event.REVERT_FAILED: S.ROLLBACK_FAILED,
        Event.TIMED_OUT: S.TIMED_OUT,
        Event.SUPERSEDED: S.SUPERSEDED,
        Event.CANCELED: S.CANCELED,
        Event.POWER_LOST_AGAIN: S.FAILED,
    }
)
"""Outcomes that end a deployment from whatever state it is in."""

TABLE: Mapping[tuple[S, Event], S] = MappingProxyType(
    {
        **{(state, event): end for state in IN_FLIGHT for event, end in OUTCOMES.items()},
        # Effects are repeatable: after a power cut the state that was entered is simply worked through again.
        **{(state, Event.POWER_RETURNED): state for state in IN_FLIGHT},
        **FORWARD,
    }
)

SUSPECT = frozenset({S.PROBING, S.TRIAL})
"""States that run the bundle: a power cut in them may be its doing."""
MAX_POWER_RETURNS = 2
"""A deployment that was cut more often than this in a suspect state is taken as the cause."""


class IllegalTransition(Exception):
    """A bug: the executor offered an event that the state does not answer."""


def after(state: DeploymentState, event: Event) -> DeploymentState:
    """The state after ``event``. Raises IllegalTransition when the table has no such row."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise IllegalTransition(f"{state.value} does not answer {event.value}") from None
