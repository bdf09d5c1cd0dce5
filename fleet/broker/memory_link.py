"""The server's side of the in-process broker: the session that the broker keeps, and the link that comes and goes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from fleet.broker.broker import SERVER_FILTER
from fleet.broker.link import Incoming
from fleet.broker.outbox import Outbox, Outgoing
from fleet.broker.topic_filter import is_filter

_log = logging.getLogger(__name__)

_MAX_WAITING = 10_000


class Exchange(Protocol):
    """What a link needs of the broker."""

    def attach(self, link: MemoryLink) -> None:
        """The link takes the server's session over; the broker tells it when it is up or down."""

    def detach(self, link: MemoryLink) -> None: ...

    def publish(self, writable: str, message: Outgoing) -> None: ...

    def subscribe(self, subscriber: ServerSession, topic_filter: str) -> None: ...


class ServerSession:
    """What the broker keeps for the server while it is away: filters, and unacknowledged messages in order."""

    def __init__(self) -> None:
        self.filters: list[str] = []
        self.readable = SERVER_FILTER
        self.link: MemoryLink | None = None
        self.unacknowledged: dict[int, tuple[str, bytes, bool]] = {}
        self._next_number = 0

    def receive(self, topic: str, payload: bytes, retained: bool) -> None:
        number = self._next_number
        self._next_number += 1
        self.unacknowledged[number] = (topic, payload, retained)
        if self.link is not None:
            self.link.hand_over(number, topic, payload, retained)


class MemoryLink:
    """Driver of the ServerLink seam, made by MemoryBroker.link. Connected whenever it is started and the broker is up.

    As with client ids on a network, a link that starts takes the session away from the one before.
    """

    def __init__(self, exchange: Exchange, on_message: Callable[[Incoming], None]) -> None:
        self._exchange = exchange
        self._on_message = on_message
        self._filters: list[str] = []
        self._session: ServerSession | None = None
        self._outbox = Outbox(_MAX_WAITING)

    @property
    def connected(self) -> bool:
        return self._session is not None

    def start(self) -> None:
        self._exchange.attach(self)

    def stop(self) -> None:
        self._exchange.detach(self)

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        ticket = self._outbox.add(message := Outgoing(topic, payload, retain))
        if self.connected:
            self._outbox.confirm(ticket)
            self._exchange.publish(SERVER_FILTER, message)

    def subscribe(self, topic_filter: str) -> None:
        if not is_filter(topic_filter):
            raise ValueError(f"{topic_filter!r} is no MQTT topic filter")
        self._filters.append(topic_filter)
        if self._session is not None:
            self._exchange.subscribe(self._session, topic_filter)

    def connect(self, session: ServerSession) -> None:
        """Called by the broker, as after a CONNACK: redelivers, subscribes again, sends what waited."""
        self._session = session
        for number, message in list(session.unacknowledged.items()):
            self.hand_over(number, *message)
        for topic_filter in self._filters:
            self._exchange.subscribe(session, topic_filter)
        for ticket, outgoing in self._outbox.waiting():
            self._outbox.confirm(ticket)
            self._exchange.publish(SERVER_FILTER, outgoing)

    def disconnect(self) -> None:
        """Called by the broker: it is down, or another link has taken over."""
        self._session = None

    def hand_over(self, number: int, topic: str, payload: bytes, retained: bool) -> None:
        session = self._session

        def ack() -> None:
            if session is not None and session is self._session:
                session.unacknowledged.pop(number, None)

        try:
            self._on_message(Incoming(topic, payload, retained, ack))
        except Exception:  # noqa: BLE001
            # As over a network (connection.py): the receiver is foreign here and its fault costs one message.
            _log.exception("a received message was not handled")
