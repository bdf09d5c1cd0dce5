"""A broker within this process, without network or child: for tests of what is built on the seam.

It keeps the contract of ``broker.py`` (accounts, topics, retained messages, wills, redelivery), and delivers within the
publisher's call: when publish() returns, every callback has run, unless another thread is delivering and takes them
over. Callbacks run without any lock held, and what they publish is delivered after them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fleet.broker.broker import BrokerAddress, DeviceAccount, ServerCredentials, without_duplicates
from fleet.broker.link import Incoming
from fleet.broker.memory_link import MemoryLink, ServerSession
from fleet.broker.outbox import Outgoing
from fleet.broker.topic_filter import is_filter, matches
from fleet.broker.verifiers import check_password
from fleet.errors import BrokerNotStarted, CredentialsRefused


@dataclass(frozen=True)
class Message:
    """What a device receives."""

    topic: str
    payload: bytes
    retained: bool


class Subscriber(Protocol):
    """One that messages are delivered to. ``filters`` are its subscriptions, ``readable`` what it may read at all."""

    filters: list[str]
    readable: str

    def receive(self, topic: str, payload: bytes, retained: bool) -> None: ...


class MemoryBroker:
    """Driver of the Broker seam. Devices come in by connect(), the server by link(); restart() simulates a crash."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running = False
        self._accounts: dict[str, DeviceAccount] = {}
        self._retained: dict[str, bytes] = {}
        self._connections: dict[str, MemoryConnection] = {}
        self._session = ServerSession()
        self._link: MemoryLink | None = None
        self._deliveries: deque[Callable[[], None]] = deque()
        self._delivering = False

    def start(self) -> None:
        with self._lock:
            self._running = True
            link = self._link
        if link is not None:
            self.attach(link)

    def stop(self) -> None:
        with self._lock:
            self._running = False
            connections, link = list(self._connections.values()), self._session.link
            self._connections.clear()
            self._session.link = None
        for connection in connections:
            connection.connected = False
        if link is not None:
            link.disconnect()

    def restart(self) -> None:
        """What a killed and restarted child looks like: connections are lost, retained and queued messages are not."""
        self.stop()
        self.start()

    @property
    def address(self) -> BrokerAddress:
        return BrokerAddress("in-process", 1883)

    @property
    def server_credentials(self) -> ServerCredentials:
        if not self._running:
            raise BrokerNotStarted("server credentials")
        return ServerCredentials("@server", "in-process", "server")

    def alive(self) -> bool:
        return self._running

    def set_accounts(self, accounts: Sequence[DeviceAccount]) -> None:
        wanted = {account.username: account for account in without_duplicates(accounts)}
        with self._lock:
            self._accounts = wanted
            gone = [c for c in self._connections.values() if wanted.get(c.account.username) != c.account]
        for connection in gone:
            connection.drop()

    def link(self, on_message: Callable[[Incoming], None]) -> MemoryLink:
        """The server's link; what ServerClient is to a broker with a network."""
        return MemoryLink(self, on_message)

    def connect(
        self,
        username: str,
        password: str,
        on_message: Callable[[Message], None],
        *,
        client_id: str | None = None,
        will: Outgoing | None = None,
    ) -> MemoryConnection:
        """A device's connection. A connection that has the same client id (else the user name) is dropped.

        Raises CredentialsRefused, BrokerNotStarted.
        """
        with self._lock:
            if not self._running:
                raise BrokerNotStarted("connections")
            account = self._accounts.get(username)
            if account is None or not check_password(account.verifiers, password):
                raise CredentialsRefused(username)
            connection = MemoryConnection(self, account, client_id or username, on_message, will)
            older = self._connections.get(connection.client_id)
        if older is not None:
            older.drop()
        with self._lock:
            self._connections[connection.client_id] = connection
        return connection

    def attach(self, link: MemoryLink) -> None:
        """The link takes the session over from the one before, now or when the broker starts."""
        with self._lock:
            former, self._link = self._link, link
            running = self._running
            self._session.link = link if running else None
        if former is not None and former is not link:
            former.disconnect()
        if running:
            link.connect(self._session)
            self._deliver()

    def detach(self, link: MemoryLink) -> None:
        """The link has stopped; the session goes on collecting."""
        with self._lock:
            if self._link is link:
                self._link = self._session.link = None
        link.disconnect()

    def forget(self, connection: MemoryConnection) -> None:
        """The connection has ended."""
        with self._lock:
            if self._connections.get(connection.client_id) is connection:
                del self._connections[connection.client_id]

    def publish(self, writable: str, message: Outgoing) -> None:
        """By someone who may write ``writable``; what is elsewhere is dropped without a word."""
        if not matches(writable, message.topic):
            return
        with self._lock:
            if message.retain and message.payload:
                self._retained[message.topic] = message.payload
            elif message.retain:
                self._retained.pop(message.topic, None)
            subscribers: list[Subscriber] = [*self._connections.values(), self._session]
            for subscriber in subscribers:
                if any(matches(wanted, message.topic) for wanted in subscriber.filters):
                    self._enqueue(subscriber, message.topic, message.payload, retained=False)
        self._deliver()

    def subscribe(self, subscriber: Subscriber, topic_filter: str) -> None:
        """Adds the filter and delivers what is retained under it. Raises ValueError for a malformed filter."""
        if not is_filter(topic_filter):
            raise ValueError(f"{topic_filter!r} is no MQTT topic filter")
        with self._lock:
            if topic_filter not in subscriber.filters:
                subscriber.filters.append(topic_filter)
            for topic, payload in self._retained.items():
                if matches(topic_filter, topic):
                    self._enqueue(subscriber, topic, payload, retained=True)
        self._deliver()

    def _enqueue(self, subscriber: Subscriber, topic: str, payload: bytes, *, retained: bool) -> None:
        if matches(subscriber.readable, topic):
            self._deliveries.append(lambda: subscriber.receive(topic, payload, retained))

    def _deliver(self) -> None:
        with self._lock:
            if self._delivering:
                return
            self._delivering = True
        while True:
            with self._lock:
                if not self._deliveries:
                    self._delivering = False
                    return
                delivery = self._deliveries.popleft()
            try:
                delivery()
            except BaseException:
                with self._lock:
                    self._delivering = False
                raise


class MemoryConnection:
    """A device's connection, made by MemoryBroker.connect. What is published or subscribed when it is lost is lost."""

    def __init__(
        self,
        broker: MemoryBroker,
        account: DeviceAccount,
        client_id: str,
        on_message: Callable[[Message], None],
        will: Outgoing | None,
    ) -> None:
        self.account = account
        self.client_id = client_id
        self.connected = True
        self.filters: list[str] = []
        self.readable = account.readable
        self._broker = broker
        self._on_message = on_message
        self._will = will

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        """Raises PublishRefused for a topic with wildcards or a payload too large."""
        message = Outgoing(topic, payload, retain)
        if self.connected:
            self._broker.publish(self.account.writable, message)

    def subscribe(self, topic_filter: str) -> None:
        """Any filter may be asked for; only what the account may read is delivered."""
        if self.connected:
            self._broker.subscribe(self, topic_filter)

    def disconnect(self) -> None:
        """An orderly goodbye: the will is not published."""
        self._will = None
        self.drop()

    def drop(self) -> None:
        """The connection is gone without a goodbye: the will is published."""
        if not self.connected:
            return
        self.connected = False
        self._broker.forget(self)
        if self._will is not None:
            self._broker.publish(self.account.writable, self._will)

    def receive(self, topic: str, payload: bytes, retained: bool) -> None:
        if self.connected:
            self._on_message(Message(topic, payload, retained))
