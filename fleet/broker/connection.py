"""One MQTT connection, from connect until it is lost: what the server uses of paho-mqtt.

A lost connection is not repaired but replaced by a new object. So no state of paho's (message ids, queued packets)
reaches the next connection, where the broker may have given the same message id to another message.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from fleet.broker.broker import BrokerAddress, ServerCredentials
from fleet.broker.link import Incoming
from fleet.broker.outbox import Outgoing

_log = logging.getLogger(__name__)

KEEPALIVE_S = 30
CONNECT_TIMEOUT_S = 5.0
_CLOSE_GRACE_S = 2.0
_MAX_IN_FLIGHT = 1000


class MqttConnection:
    """Callbacks run on the connection's own thread, except that none runs after ``lost`` is set.

    ``on_accepted(connection)`` once, when the broker has accepted the login. ``on_confirmed(mid)`` for a published
    message, while paho holds a lock of its own: take no lock in it. ``on_subscribed(mid)`` for a subscription.
    """

    def __init__(
        self,
        address: BrokerAddress,
        credentials: ServerCredentials,
        ca_file: Path | None,
        *,
        on_accepted: Callable[[MqttConnection], None],
        on_message: Callable[[Incoming], None],
        on_confirmed: Callable[[int], None],
        on_subscribed: Callable[[int], None],
    ) -> None:
        self.settled = threading.Event()
        """Accepted, refused or lost: no longer undecided."""
        self.accepted = threading.Event()
        """Stays set when the connection is lost later."""
        self.lost = threading.Event()
        self.refusal: str | None = None
        """The broker's reason when it did not accept the login."""
        self._address = address
        self._credentials = credentials
        self._ca_file = ca_file
        self._on_accepted = on_accepted
        self._on_message = on_message
        self._on_confirmed = on_confirmed
        self._on_subscribed = on_subscribed
        self._opening = threading.Lock()
        self._closed = False
        self._client: paho.Client | None = None

    def open(self) -> None:
        """Connects and starts the connection's thread, unless close() came first. Raises OSError without a broker."""
        with self._opening:
            if self._closed:
                return
            self._client = client = self._make_client()
            try:
                client.connect(self._address.host, self._address.port, keepalive=KEEPALIVE_S)
            except OSError:
                self._end()
                raise
            client.loop_start()

    def close(self) -> None:
        """Says goodbye if that is possible and ends the thread. Not from a callback.

        Waits for an open() under way (CONNECT_TIMEOUT_S at most): paho cannot be left while it connects.
        """
        with self._opening:
            self._closed = True
            client = self._client
        if client is None:
            self._end()
            return
        client.disconnect()
        if not self.lost.wait(_CLOSE_GRACE_S):
            _cut(client.socket())
        # Paho's thread may end, and forget itself, between loop_stop's two looks at it.
        with contextlib.suppress(AttributeError):
            client.loop_stop()

    def publish(self, message: Outgoing) -> int:
        """Message id, to be seen again in on_confirmed; after the connection is lost it does nothing."""
        return self._opened().publish(message.topic, message.payload, qos=1, retain=message.retain).mid

    def subscribe(self, topic_filter: str) -> int | None:
        """Message id, to be seen again in on_subscribed; None when the connection is lost."""
        code, mid = self._opened().subscribe(topic_filter, qos=1)
        return mid if code == MQTTErrorCode.MQTT_ERR_SUCCESS else None

    def _opened(self) -> paho.Client:
        assert self._client is not None, "open() comes first"
        return self._client

    def _make_client(self) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._credentials.client_id,
            clean_session=False,
            protocol=paho.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.username_pw_set(self._credentials.username, self._credentials.password)
        client.max_inflight_messages_set(_MAX_IN_FLIGHT)
        client.connect_timeout = CONNECT_TIMEOUT_S
        if self._address.tls:
            client.tls_set_context(ssl.create_default_context(cafile=self._ca_file))
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        client.on_message = self._received
        client.on_publish = lambda _client, _data, mid, _code, _properties: self._on_confirmed(mid)
        client.on_subscribe = self._subscribed
        return client

    def _connected(self, _client: paho.Client, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        if code.is_failure:
            self.refusal = str(code)
        else:
            self._on_accepted(self)
            self.accepted.set()
        self.settled.set()

    def _disconnected(self, _client: paho.Client, _data: Any, _flags: Any, _code: Any, _properties: Any) -> None:
        self._end()

    def _end(self) -> None:
        self.lost.set()
        self.settled.set()

    def _subscribed(self, _client: paho.Client, _data: Any, mid: int, codes: list[Any], _properties: Any) -> None:
        if any(code.is_failure for code in codes):
            _log.error("the broker refused a subscription of the server: %s", ", ".join(map(str, codes)))
        self._on_subscribed(mid)

    def _received(self, client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        mid, qos = message.mid, message.qos
        try:
            incoming = Incoming(message.topic, bytes(message.payload), message.retain, ack=_once(client, mid, qos))
            self._on_message(incoming)
        except Exception:  # noqa: BLE001
            # The receiver is foreign here. Paho's thread would end with it, and with the thread all reception: one bad
            # message shall cost no more than itself.
            _log.exception("a received message was not handled")


def _once(client: paho.Client, mid: int, qos: int) -> Callable[[], None]:
    """Acknowledges the first time it is called; on a lost connection paho drops the packet."""
    first = threading.Lock()

    def ack() -> None:
        if first.acquire(blocking=False):
            client.ack(mid, qos)

    return ack


def _cut(connection: Any) -> None:
    if connection is not None:
        with contextlib.suppress(OSError):  # gone already
            connection.shutdown(socket.SHUT_RDWR)
