"""The Link over MQTT 3.1.1 with paho: clean sessions, QoS 1, nothing that NATS, mosquitto and EMQX do not share.

One thread of ours makes a new paho client for every connection, so that nothing of an old one lives on, and makes all
Listener calls. Paho's own thread, one per connection, moves the bytes and only hands over: it holds locks when it calls
back, and what it waits for the keep-alive waits for.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from agent.clock import Clock
from agent.config import LinkConfig
from agent.fleet_link.link import Account, Listener
from agent.fleet_link.pacing import Ended, Pacing
from edge_contracts import topics

_log = logging.getLogger(__name__)
STOP_WAIT_S = 2.0
STOPPED = "stopped"
MAX_INFLIGHT = 100
REFUSED = "refused"
NOT_AUTHORIZED = ("Not authorized", "Bad user name or password")
UNKNOWN_IDENTITY = (
    "the server no longer accepts this identity: enrol again (mindie enroll), or another device took its name"
)


@dataclass(frozen=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class MqttLink:
    """See link.py. ``addresses`` are tried in turn."""

    def __init__(
        self, account: Account, addresses: Sequence[Address], config: LinkConfig, clock: Clock, rng: random.Random
    ) -> None:
        self._account = account
        self._addresses = addresses
        self._config = config
        self._clock = clock
        self._pacing = Pacing(config, rng)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: _Connection | None = None
        self._complained: set[str] = set()
        self._outage = ""

    def start(self, listener: Listener) -> None:
        self._thread = threading.Thread(target=self._run, args=(listener,), name="fleet-link", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        connection = self._connection
        if connection is not None:
            connection.end(STOPPED)
        if self._thread is not None:
            self._thread.join(STOP_WAIT_S + self._config.connect_timeout_s + 1)

    @property
    def connected(self) -> bool:
        connection = self._connection
        return connection is not None and connection.ready

    @property
    def detail(self) -> str:
        """Why there is no connection, in words; empty while there is one, or before the first attempt has ended."""
        return "" if self.connected else self._outage

    def publish(self, topic: str, payload: bytes, *, retain: bool, confirmed: Callable[[], None]) -> bool:
        connection = self._connection
        return connection is not None and connection.publish(topic, payload, retain, confirmed)

    def _run(self, listener: Listener) -> None:
        attempt = 0
        while not self._stopping.is_set():
            address = self._addresses[attempt % len(self._addresses)]
            attempt += 1
            ended, reason = self._connect_once(address, listener)
            if self._stopping.is_set():
                return
            wait_s = self._pacing.wait_s(ended)
            self._complain(address, failure_of(ended, reason), reason, wait_s)
            if self._pacing.news_of_takeover():
                listener.on_takeover(
                    f"{self._config.takeover_sessions} connections in a row were ended by the broker within "
                    f"{self._config.stable_s:g} s: is another device using the identity {self._account.device}?"
                )
            self._clock.wait(self._stopping, wait_s)

    def _connect_once(self, address: Address, listener: Listener) -> tuple[Ended, str]:
        connection = _Connection(self._account, self._config, listener)
        started = self._clock.monotonic()
        self._connection = connection
        try:
            if connection.open(address):
                started = self._clock.monotonic()
                _log.info("connected to the broker at %s", address)
                self._complained, self._outage = set(), ""
                connection.serve()
        finally:
            connection.close()
            self._connection = None
        lasted_s = self._clock.monotonic() - started
        return Ended(lasted_s, connection.was_ready, connection.closed_by_broker), connection.reason

    def _complain(self, address: Address, failure: str, reason: str, wait_s: float) -> None:
        """At WARNING once per outage and kind of failure, the rest at DEBUG: a broker that is away for a week does not
        fill the log, and one that is back and refuses is news.
        """
        level = logging.DEBUG if failure in self._complained else logging.WARNING
        self._outage = f"{failure} {address} ({reason})"
        _log.log(level, "%s; next attempt in %.1f s", self._outage, wait_s)
        self._complained.add(failure)


def failure_of(ended: Ended, reason: str) -> str:
    """The kind of failure, as the beginning of a sentence that goes on with the broker's address. Pure."""
    if reason.startswith(REFUSED):
        return "refused by the broker at"
    return "lost the broker at" if ended.accepted else "cannot reach the broker at"


def words_of(code: ReasonCode) -> str:
    """Paho's words; MQTT 3.1.1 has no reason for an end, which paho calls unspecified. Pure."""
    text = str(code)
    return "connection closed by the broker" if text == "Unspecified error" else text


def refusal_of(code: ReasonCode) -> str:
    """Why the broker did not let us in. Pure."""
    text = str(code)
    return f"{REFUSED}: {UNKNOWN_IDENTITY}" if text in NOT_AUTHORIZED else f"{REFUSED}: {text}"


class _Connection:
    """One connection, from its attempt to its end. ``open``, ``serve`` and ``close`` on the link's thread."""

    def __init__(self, account: Account, config: LinkConfig, listener: Listener) -> None:
        self._account = account
        self._config = config
        self._listener = listener
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[], None]] = {}
        self._early: set[int] = set()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.ready = False
        self.was_ready = False
        self.closed_by_broker = False
        self.reason = ""
        self._client = self._make_client()

    def open(self, address: Address) -> bool:
        """Connect, log in, subscribe; whether all of that was done in time. ``reason`` says why not."""
        will = self._listener.next_will()
        self._client.will_set(will.topic, will.payload, qos=1, retain=True)
        try:
            if address.tls:
                self._client.tls_set(ca_certs=self._config.ca_file)
            self._client.connect(address.host, address.port, keepalive=self._config.keepalive_s)
        except (OSError, ValueError) as error:
            self.reason = str(error)
            return False
        self._client.loop_start()
        while not self.ready:
            try:
                call = self._calls.get(timeout=self._config.connect_timeout_s)
            except queue.Empty:
                self.reason = f"no answer within {self._config.connect_timeout_s:g} s"
                return False
            if call is None:
                return False
            call()
        return True

    def serve(self) -> None:
        """Make the Listener's calls until the connection ends."""
        self._listener.on_connected()
        while (call := self._calls.get()) is not None:
            self._make(call)
        self._flush()
        self.ready = False
        if self.closed_by_broker or self.reason != STOPPED:
            self._listener.on_disconnected()

    def end(self, reason: str) -> None:
        """From any thread."""
        self.reason = self.reason or reason
        self._calls.put(None)

    def close(self) -> None:
        self.ready = False
        self._client.disconnect()
        with contextlib.suppress(AttributeError):  # paho's thread may end between its two looks at it
            self._client.loop_stop()

    def publish(self, topic: str, payload: bytes, retain: bool, confirmed: Callable[[], None]) -> bool:
        if not self.ready:
            return False
        info = self._client.publish(topic, payload, qos=1, retain=retain)
        if info.rc != paho.MQTT_ERR_SUCCESS:
            return False
        with self._lock:
            if info.mid not in self._early:
                self._waiting[info.mid] = confirmed
                return True
            self._early.discard(info.mid)
        confirmed()
        return True

    def _confirm(self, mid: int) -> None:
        with self._lock:
            confirmed = self._waiting.pop(mid, None)
            if confirmed is None:
                self._early.add(mid)  # the broker was faster than publish() returned
        if confirmed is not None:
            confirmed()

    def _make(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:  # noqa: BLE001 - a bug in one handler must not cost the device's reachability; it is logged
            _log.exception("a message was lost")

    def _flush(self) -> None:
        """A wanted end: what was handed over goes out first, within STOP_WAIT_S."""
        if self.reason != STOPPED:
            return
        try:
            while self._waiting:
                call = self._calls.get(timeout=STOP_WAIT_S)
                if call is None:
                    return
                self._make(call)
        except queue.Empty:
            return

    def _make_client(self) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=self._account.device, clean_session=True, protocol=paho.MQTTv311,
            reconnect_on_failure=False,
        )  # fmt: skip
        client.username_pw_set(self._account.device, self._account.password)
        client.max_inflight_messages_set(MAX_INFLIGHT)
        client.connect_timeout = self._config.connect_timeout_s
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        return client

    # Signatures are paho's; ``_more`` is what we do not need of them.

    def _on_connect(self, client: paho.Client, _data: Any, _flags: Any, code: ReasonCode, *_more: Any) -> None:
        if code.is_failure:
            self.end(refusal_of(code))
        else:
            client.subscribe(topics.device_down_filter(self._account.site, self._account.device), qos=1)

    def _on_subscribe(
        self, _client: paho.Client, _data: Any, _mid: int, codes: list[ReasonCode], *_more: Any
    ) -> None:  # fmt: skip
        if any(code.is_failure for code in codes):
            self.end("the broker refuses the subscription to the device's own topics")
        else:
            self._calls.put(self._become_ready)

    def _become_ready(self) -> None:
        self.ready = self.was_ready = True

    def _on_disconnect(self, _client: paho.Client, _data: Any, _flags: Any, code: ReasonCode, *_more: Any) -> None:
        self.closed_by_broker = not self.reason and code.is_failure and str(code) != "Keep alive timeout"
        self.end(words_of(code))

    def _on_publish(self, _client: paho.Client, _data: Any, mid: int, code: ReasonCode, *_more: Any) -> None:
        if not code.is_failure:
            self._calls.put(lambda: self._confirm(mid))

    def _on_message(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        payload, retained = bytes(message.payload), message.retain
        self._calls.put(lambda: self._listener.on_message(topic, payload, retained))
