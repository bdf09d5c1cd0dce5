"""Seam: the server's own connection to the broker. Drivers: ``client.py`` (MQTT), ``memory.py`` (in-process)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Incoming:
    """One message as it came in.

    ``retained``: the broker had kept it from before the subscription. ``ack``: call it once the message is safe
    (committed), from any thread and at any time; until then the broker keeps the message and delivers it again after a
    reconnect, so a message may come more than once. Repeated calls, and calls after the connection has changed, do
    nothing.
    """

    topic: str
    payload: bytes
    retained: bool
    ack: Callable[[], None] = field(compare=False, repr=False)


class ServerLink(Protocol):
    """Publishes and subscribes as the server, and comes back by itself for as long as it is started.

    Lifetime: start() and stop() once each, in this order, by the owner. Everything else may be called from any thread,
    also from within the message callback, and also while there is no connection.

    Messages: the callback given at construction runs on the link's own thread, one message at a time. It must hand
    over and return: what it takes, the keep-alive waits for. An exception from it is logged and costs that one message,
    which then counts as not acknowledged. A broker holds back after about 1,000 unacknowledged messages.

    Credentials belong to one link: a second link with the same credentials takes the connection away from the first.
    """

    @property
    def connected(self) -> bool:
        """Accepted by the broker and every subscription confirmed."""

    def start(self) -> None:
        """Returns at once; the connection is made, and made again for ever, in the background."""

    def stop(self) -> None:
        """Disconnects and ends the link's threads. What the broker has not confirmed may be lost."""

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        """Takes the message over at QoS 1. It is sent, again after a reconnect if need be, until the broker confirms.

        Unconfirmed retained messages of one topic replace one another: only the last wish counts. Order is kept
        otherwise. Raises PublishRefused when the topic holds a wildcard, the payload exceeds MAX_PAYLOAD_BYTES, or too
        many messages are waiting for a connection.
        """

    def subscribe(self, topic_filter: str) -> None:
        """Subscribes at QoS 1, now and at every later connect. Raises ValueError for a malformed filter."""
