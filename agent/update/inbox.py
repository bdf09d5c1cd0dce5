"""What reaches the executor from other threads: wishes, and news about what serves. It looks at safe points only."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from agent.update.records import Deployment, DeviceState, Wish
from agent.update.wishes import wishes_of
from edge_contracts.messages import Desired


@dataclass(frozen=True)
class WishFor:
    """Somebody here wants ``name`` to be something else."""

    name: str
    wish: Wish


@dataclass(frozen=True)
class Desire:
    """The fleet's whole wish."""

    desired: Desired


@dataclass(frozen=True)
class Cancel:
    """Stop this deployment, by its id."""

    deployment: str


@dataclass(frozen=True)
class Worse:
    """The active bundle of ``name`` got worse after commit. ``go_back``: it cannot be left serving."""

    name: str
    reason: str
    go_back: bool


Message = WishFor | Desire | Cancel | Worse


class Inbox:
    """Thread-safe. ``wake`` is set while there is something to look at, or the executor is to stop; ``nudge`` is set
    whenever that may have changed, for whoever waits in the middle of a step.
    """

    def __init__(self) -> None:
        self.wake = threading.Event()
        self.nudge = threading.Event()
        self._lock = threading.Lock()
        self._messages: deque[Message] = deque()

    def put(self, message: Message) -> None:
        """Hand over; returns at once."""
        with self._lock:
            self._messages.append(message)
        self.poke()

    def poke(self) -> None:
        """Make whoever waits look again."""
        self.wake.set()
        self.nudge.set()

    def take(self) -> list[Message]:
        """All messages, oldest first."""
        with self._lock:
            messages = list(self._messages)
            self._messages.clear()
        self.wake.clear()
        return messages

    def stops(self, name: str, state: DeviceState) -> bool:
        """Whether a message waits that wants another end for the deployment in flight of ``name``."""
        deployment = state.model(name).deployment
        if deployment is None:
            return False
        with self._lock:
            waiting = list(self._messages)
        return any(_stops(message, name, deployment, state) for message in waiting)


def _stops(message: Message, name: str, deployment: Deployment, state: DeviceState) -> bool:
    if isinstance(message, Cancel):
        return message.deployment == deployment.wish.deployment
    if isinstance(message, WishFor):
        return message.name == name and message.wish.deployment != deployment.wish.deployment
    if isinstance(message, Desire):
        return any(name == wished for wished, _ in wishes_of(message.desired, state))
    return False
