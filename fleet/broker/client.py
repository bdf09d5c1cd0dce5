"""The server's link over MQTT: keeps one connection up, for ever, and carries what must outlive a connection."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from fleet.broker.backoff import Backoff
from fleet.broker.broker import BrokerAddress, ServerCredentials
from fleet.broker.connection import CONNECT_TIMEOUT_S, MqttConnection
from fleet.broker.link import Incoming
from fleet.broker.outbox import Outbox, Outgoing
from fleet.broker.topic_filter import is_filter

_log = logging.getLogger(__name__)

RECONNECT = Backoff(first_s=0.5, cap_s=30.0, stable_s=60.0)
MAX_WAITING = 10_000


class ServerClient:
    """Driver of the ServerLink seam. MQTT 3.1.1, QoS 1, persistent session: the broker queues while the server is away.

    Reconnects with full jitter. ``ca_file``: the certificate authority to trust when the address says TLS.
    """

    def __init__(
        self,
        address: BrokerAddress,
        credentials: ServerCredentials,
        on_message: Callable[[Incoming], None],
        *,
        ca_file: Path | None = None,
        backoff: Backoff = RECONNECT,
        max_waiting: int = MAX_WAITING,
        chance: Callable[[], float] = random.random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._on_message = on_message
        self._ca_file = ca_file
        self._backoff = backoff
        self._chance = chance
        self._monotonic = monotonic
        self._thread = threading.Thread(target=self._keep_connected, name="mqtt-link", daemon=True)
        self._stopping = threading.Event()
        self._unreachable_said = False
        # Guarded by the lock, which is never held while waiting for anything.
        self._lock = threading.Lock()
        self._filters: dict[str, None] = {}
        self._outbox = Outbox(max_waiting)
        self._current: MqttConnection | None = None
        self._accepted: MqttConnection | None = None
        self._tickets: dict[int, int] = {}
        self._unsubscribed: set[int] = set()
        # Filled by paho's thread under a lock of paho's, so without ours: emptied at the next publish.
        self._confirmed: deque[int] = deque()

    @property
    def connected(self) -> bool:
        with self._lock:
            return self._accepted is not None and not self._accepted.lost.is_set() and not self._unsubscribed

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            connection = self._current
        if connection is not None:
            connection.close()
        self._thread.join()

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        message = Outgoing(topic, payload, retain)
        with self._lock:
            self._settle()
            ticket = self._outbox.add(message)
            if self._accepted is not None:
                self._tickets[self._accepted.publish(message)] = ticket

    def subscribe(self, topic_filter: str) -> None:
        if not is_filter(topic_filter):
            raise ValueError(f"{topic_filter!r} is no MQTT topic filter")
        with self._lock:
            self._filters[topic_filter] = None
            if self._accepted is not None:
                self._request(self._accepted, topic_filter)

    def _keep_connected(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            lasted_s = self._one_connection()
            failures = self._backoff.failures_after(failures, lasted_s)
            self._stopping.wait(self._backoff.ceiling_s(failures) * self._chance())

    def _one_connection(self) -> float:
        """Returns when the connection is lost: the seconds for which it was accepted, 0 when it never was."""
        connection = self._new_connection()
        if connection is None:
            return 0.0
        try:
            connection.open()
        except OSError as error:
            self._say_unreachable(error.strerror or str(error))
            return 0.0
        connection.settled.wait(CONNECT_TIMEOUT_S)
        accepted = connection.accepted.is_set()
        began_s = self._monotonic()
        if accepted:
            self._say_reached()
            connection.lost.wait()
        else:
            self._say_unreachable(connection.refusal or "it does not answer")
        with self._lock:
            self._accepted = None
        connection.close()
        return self._monotonic() - began_s if accepted else 0.0

    def _new_connection(self) -> MqttConnection | None:
        """None when stop() was called: it closes the connection that it finds, and no new one may come after."""
        with self._lock:
            if self._stopping.is_set():
                return None
            self._settle()
            self._confirmed = confirmed = deque[int]()
            self._current = MqttConnection(
                self._address,
                self._credentials,
                self._ca_file,
                on_accepted=self._resume,
                on_message=self._on_message,
                on_confirmed=confirmed.append,
                on_subscribed=self._subscribed,
            )
            return self._current

    def _resume(self, connection: MqttConnection) -> None:
        with self._lock:
            self._accepted = connection
            self._unsubscribed.clear()
            for topic_filter in self._filters:
                self._request(connection, topic_filter)
            self._tickets = {connection.publish(message): ticket for ticket, message in self._outbox.waiting()}

    def _request(self, connection: MqttConnection, topic_filter: str) -> None:
        mid = connection.subscribe(topic_filter)
        if mid is not None:
            self._unsubscribed.add(mid)

    def _subscribed(self, mid: int) -> None:
        with self._lock:
            self._unsubscribed.discard(mid)

    def _settle(self) -> None:
        while self._confirmed:
            ticket = self._tickets.pop(self._confirmed.popleft(), None)
            if ticket is not None:
                self._outbox.confirm(ticket)

    def _say_unreachable(self, reason: str) -> None:
        if not self._unreachable_said and not self._stopping.is_set():
            _log.warning("no connection to the broker at %s:%d: %s", self._address.host, self._address.port, reason)
            self._unreachable_said = True

    def _say_reached(self) -> None:
        if self._unreachable_said:
            _log.warning("connected to the broker at %s:%d again", self._address.host, self._address.port)
            self._unreachable_said = False
