"""Rigs for brokers that run as child processes: real clients over real sockets."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import paho.mqtt.client as paho
import psutil
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from fleet.broker.backoff import Backoff
from fleet.broker.broker import BrokerAddress
from fleet.broker.child_broker import ChildBroker, Dialect
from fleet.broker.client import ServerClient
from fleet.broker.link import Incoming
from fleet.broker.outbox import Outgoing
from fleet.errors import BrokerBinaryMissing, CredentialsRefused
from tests.suites.broker_suite import eventually

TIMEOUT_S = 10.0


def require(dialect: Dialect) -> None:
    """Skips where the broker is not installed, except in CI, where it has to be."""
    try:
        dialect.find_binary()
    except BrokerBinaryMissing as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def gone(pid: int) -> bool:
    """Ended, be it that nobody has collected it yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class MqttDevice:
    """A device over paho that, unlike a real one, does not come back by itself."""

    def __init__(
        self, address: BrokerAddress, username: str, password: str, client_id: str, will: Outgoing | None
    ) -> None:
        self.received: list[tuple[str, bytes, bool]] = []
        self.interruptions = 0
        self._username = username
        self._answered = threading.Event()
        self._refused = False
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=True, reconnect_on_failure=False
        )
        self._client.username_pw_set(username, password)
        if will is not None:
            self._client.will_set(will.topic, will.payload, qos=1, retain=will.retain)
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._disconnected
        self._client.on_subscribe = lambda *_: self._answered.set()
        self._client.on_message = lambda _client, _data, message: self.received.append(
            (message.topic, message.payload, message.retain)
        )
        self._address = address

    def open(self) -> None:
        self._client.connect(self._address.host, self._address.port)
        self._client.loop_start()
        assert self._answered.wait(TIMEOUT_S), "no CONNACK"
        if not self.connected:
            self.close()
            raise CredentialsRefused(self._username) if self._refused else ConnectionError("lost before CONNACK")

    @property
    def connected(self) -> bool:
        return self._client.is_connected()

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        self._client.publish(topic, payload, qos=1, retain=retain)

    def subscribe(self, topic_filter: str) -> None:
        self._answered.clear()
        self._client.subscribe(topic_filter, qos=1)
        assert self._answered.wait(TIMEOUT_S), "no SUBACK"

    def die(self) -> None:
        connection = self._client.socket()
        assert connection is not None
        connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._client.disconnect()
        with suppress(AttributeError):  # paho's thread may end between its two looks at it
            self._client.loop_stop()

    def _connected(self, _client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        self._refused = code.is_failure
        self._answered.set()

    def _disconnected(self, *_: Any) -> None:
        self.interruptions += 1
        self._answered.set()


class MqttRig:
    def __init__(self, broker: ChildBroker) -> None:
        self.broker = broker
        self._devices: list[MqttDevice] = []
        self._links: list[ServerClient] = []

    def link(self, on_message: Callable[[Incoming], None]) -> ServerClient:
        link = ServerClient(
            self.broker.address,
            self.broker.server_credentials,
            on_message,
            backoff=Backoff(first_s=0.05, cap_s=0.2, stable_s=60.0),
        )
        self._links.append(link)
        return link

    def device(
        self, username: str, password: str, *, client_id: str | None = None, will: Outgoing | None = None
    ) -> MqttDevice:
        """Tries again while there is no broker, as a device does."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            device = MqttDevice(self.broker.address, username, password, client_id or username or "anonymous", will)
            try:
                device.open()
            except OSError:
                assert time.monotonic() < deadline_s, "the broker did not come back"
                time.sleep(0.02)
            else:
                self._devices.append(device)
                return device

    def crash(self) -> None:
        pid = self.broker.child_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: gone(pid))

    def close(self) -> None:
        for device in self._devices:
            device.close()
        for link in self._links:
            link.stop()
        self.broker.stop()
