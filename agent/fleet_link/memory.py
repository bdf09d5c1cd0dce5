"""The Link within one process: a small broker in memory with retained messages, wills and takeover, and its driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from agent.fleet_link.link import Account, Listener, Will
from edge_contracts import topics


@dataclass(frozen=True)
class Sent:
    """A message as it came in."""

    topic: str
    payload: bytes
    retain: bool


class MemoryBroker:
    """Keeps retained messages and all that was sent; a device reads its own ``down/#`` only."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._links: dict[str, MemoryLink] = {}
        self.retained: dict[str, bytes] = {}
        self.sent: list[Sent] = []
        self.is_up = True

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """As the server or a device."""
        with self._lock:
            self.sent.append(Sent(topic, payload, retain))
            if retain:
                self.retained[topic] = payload
            for link in list(self._links.values()):
                link.offer(topic, payload, retained=False)

    def attach(self, link: MemoryLink, device: str) -> None:
        """A client connects; one with the same id is thrown out."""
        with self._lock:
            older = self._links.pop(device, None)
            if older is not None and older is not link:
                older.drop()
            self._links[device] = link
            for topic, payload in list(self.retained.items()):
                link.offer(topic, payload, retained=True)

    def detach(self, device: str, will: Will | None) -> None:
        """A client has gone; with ``will`` it died."""
        with self._lock:
            self._links.pop(device, None)
            if will is not None:
                self.publish(will.topic, will.payload, retain=True)

    def kill(self) -> None:
        """The broker goes away: every connection dies, no will is sent."""
        with self._lock:
            self.is_up = False
            links, self._links = list(self._links.values()), {}
        for link in links:
            link.drop(will=False)


class MemoryLink:
    """See link.py. It does not reconnect by a clock: the test calls ``reconnect``."""

    def __init__(self, broker: MemoryBroker, account: Account) -> None:
        self._broker = broker
        self._account = account
        self._prefix = topics.device_down_filter(account.site, account.device).removesuffix("#")
        self._listener: Listener | None = None
        self._will: Will | None = None
        self._connected = False

    def start(self, listener: Listener) -> None:
        self._listener = listener
        self.reconnect()

    def stop(self) -> None:
        if self._connected:
            self._connected = False
            self._broker.detach(self._account.device, None)
        self._listener = None

    @property
    def connected(self) -> bool:
        return self._connected

    @property
    def detail(self) -> str:
        return "" if self._connected else "the broker is away"

    def publish(self, topic: str, payload: bytes, *, retain: bool, confirmed: Callable[[], None]) -> bool:
        if not self._connected:
            return False
        self._broker.publish(topic, payload, retain=retain)
        confirmed()
        return True

    def reconnect(self) -> None:
        """Connect, if the broker is up."""
        if self._listener is None or self._connected or not self._broker.is_up:
            return
        self._will = self._listener.next_will()
        self._connected = True
        self._broker.attach(self, self._account.device)
        self._listener.on_connected()

    def drop(self, *, will: bool = True) -> None:
        """The connection dies."""
        if not self._connected or self._listener is None:
            return
        self._connected = False
        self._broker.detach(self._account.device, self._will if will else None)
        self._listener.on_disconnected()

    def offer(self, topic: str, payload: bytes, *, retained: bool) -> None:
        """The broker delivers what this device may read."""
        if self._connected and self._listener is not None and topic.startswith(self._prefix):
            self._listener.on_message(topic, payload, retained)
