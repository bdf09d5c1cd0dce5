"""Seam: a device's connection to its broker. Drivers: mqtt.py (paho), memory.py (in-process).

The driver connects, and connects again for ever while it is started; each connection is a clean session with one
subscription, the device's own ``down/#``, at QoS 1. What it is given to publish goes out at QoS 1 on the present
connection only: nothing is kept for the next one (agent.fleet_link.outbox does that).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Account:
    """How a device logs in. Its id is user name and MQTT client id."""

    site: str
    device: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Will:
    """What the broker publishes (retained) when the connection dies."""

    topic: str
    payload: bytes


class Listener(Protocol):
    """Called on the driver's thread, one call at a time; must hand over and return. It raises nothing."""

    def next_will(self) -> Will:
        """Asked before every connection attempt."""

    def on_connected(self) -> None:
        """The broker accepted, and confirmed the subscription."""

    def on_disconnected(self) -> None:
        """An accepted connection has ended; unconfirmed publications of it are lost."""

    def on_message(self, topic: str, payload: bytes, retained: bool) -> None:
        """A message of the subscription, possibly twice, possibly garbage."""

    def on_takeover(self, text: str) -> None:
        """Something else seems to use this device's identity; told once until the connection has been stable again."""


class Link(Protocol):
    """start() and stop() once each, by the owner; publish() from any thread, also within a Listener's call."""

    def start(self, listener: Listener) -> None:
        """Returns at once; connecting happens in the background."""

    def stop(self) -> None:
        """Sends what has been handed over, as far as that works within two seconds, and disconnects without the will.

        No Listener call follows.
        """

    @property
    def connected(self) -> bool:
        """Between on_connected and on_disconnected."""

    @property
    def detail(self) -> str:
        """Why there is no connection, in words; empty while there is one."""

    def publish(self, topic: str, payload: bytes, *, retain: bool, confirmed: Callable[[], None]) -> bool:
        """Send once on the present connection; ``confirmed`` is called when the broker has it. False: not connected."""
