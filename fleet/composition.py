"""Puts the server together: the only place that names concrete drivers."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from typing import Protocol

from edge_contracts._version import __version__
from edge_contracts.enrolment import MqttEndpoint
from edge_contracts.topics import ALL_UP
from fleet import data_folder
from fleet.broker.broker import Broker, BrokerAddress
from fleet.broker.client import ServerClient
from fleet.broker.embedded import embedded_broker
from fleet.broker.link import Incoming, ServerLink
from fleet.broker.mosquitto import mosquitto_broker
from fleet.config import FleetConfig
from fleet.errors import PublishRefused
from fleet.http.api_types import Health
from fleet.http.app import make_app
from fleet.http.listener import HttpListener, bind
from fleet.http.metrics import Metric, render, single
from fleet.http.rooms import Rooms
from fleet.ingress.intake import Intake
from fleet.registry.app import RegistryApp
from fleet.registry.blob_store import BlobStore
from fleet.services.access import Access
from fleet.services.accounts import AccountKeeper
from fleet.services.blob_sweep import BlobSweep
from fleet.services.bundles import Bundles
from fleet.services.clock import unix_ms
from fleet.services.enrolment import Enrolment
from fleet.services.inventory import Effects, Inventory
from fleet.services.link_watch import LinkWatch
from fleet.services.reading import Reading
from fleet.services.retention import Retention
from fleet.services.rollouts import Rollouts
from fleet.services.ticker import Ticker
from fleet.services.wishes import Wishes
from fleet.store.sql.unit_of_work import SqlStore

DATABASE_FILE = "fleet.db"
TIDY_EVERY_S = 60.0
Connect = Callable[[Broker, Callable[[Incoming], None]], ServerLink]


class _Startable(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...


class _Supervised(_Startable, Protocol):
    @property
    def failure(self) -> str | None: ...


def make_broker(config: FleetConfig) -> Broker:
    """The broker that the configuration names."""
    address = BrokerAddress(config.host, config.mqtt_port)
    make = mosquitto_broker if config.broker == "mosquitto" else embedded_broker
    return make(config.data_dir / "broker", address)


def connect_over_mqtt(broker: Broker, on_message: Callable[[Incoming], None]) -> ServerLink:
    """The server's link to a broker with a network."""
    return ServerClient(broker.address, broker.server_credentials, on_message)


class FleetServer:
    """start() or a FleetError with nothing left running; then stop(). Started once."""

    def __init__(self, config: FleetConfig, broker: Broker | None = None, connect: Connect = connect_over_mqtt) -> None:
        self._config = config
        self._broker = broker or make_broker(config)
        self._connect = connect
        self._link: ServerLink | None = None
        self._running = contextlib.ExitStack()
        database = config.database_url or f"sqlite:///{config.data_dir / DATABASE_FILE}"
        self._store = SqlStore(database)
        self._blobs = BlobStore(config.data_dir / "registry", secrets.token_bytes)
        self._wishes = Wishes(self._store, self)
        self._accounts = AccountKeeper(self._store, self._broker)
        self._enrolment = Enrolment(self._store, self._accounts, self._endpoint, unix_ms, secrets.token_bytes)
        self._bundles = Bundles(self._store, self._blobs, unix_ms)
        self._rollouts = Rollouts(self._store, self._bundles, self._wishes, unix_ms, secrets.token_bytes)
        self._reading = Reading(self._store, unix_ms)
        self._intake = Intake(Inventory(self._store).ingest, self._after_batch, unix_ms)
        self._retention = Retention(self._store, unix_ms)
        self._blob_sweep = BlobSweep(self._store, self._blobs, unix_ms)
        self._ticker = Ticker(self._rollouts.tick)
        self._housekeeping = Ticker(self._tidy, what="clean-ups", every_s=TIDY_EVERY_S)
        self._watch = LinkWatch(lambda: self.connected, self._reconnected)
        self._threads: tuple[_Supervised, ...] = (
            self._intake, self._accounts, self._ticker, self._watch, self._housekeeping,
        )  # fmt: skip
        self.url = ""
        self.mqtt_port = 0

    @property
    def connected(self) -> bool:
        """Whether the server can talk with the broker right now."""
        return self._link is not None and self._link.connected

    def start(self) -> None:
        """Returns when HTTP and MQTT are served."""
        with contextlib.ExitStack() as starting:
            listener = self._prepare(starting)
            self._start_broker(starting)
            for part in self._threads:
                _started(starting, part)
            self._serve_http(starting, listener)
            self._running = starting.pop_all()

    def stop(self) -> None:
        """In reverse order; may be called twice."""
        self._running.close()

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        """What the services publish with."""
        if self._link is None:
            raise PublishRefused(topic, "there is no link to the broker yet")
        self._link.publish(topic, payload, retain)

    def _prepare(self, starting: contextlib.ExitStack) -> socket.socket:
        folder = self._config.data_dir
        starting.enter_context(data_folder.held(folder))
        listener = bind(self._config.host, self._config.port)
        starting.callback(listener.close)
        self._access = Access(data_folder.operator_token(folder), self._enrolment.check)
        if self._config.database_url is None:
            data_folder.make_private(folder / DATABASE_FILE)
        starting.callback(self._store.close)
        self._store.open()
        self._blobs.open()
        return listener

    def _start_broker(self, starting: contextlib.ExitStack) -> None:
        self._accounts.load()
        self._broker.start()
        starting.callback(self._broker.stop)
        self.mqtt_port = self._broker.address.port
        self._link = self._connect(self._broker, self._intake.put)
        self._link.subscribe(ALL_UP)
        _started(starting, self._link)

    def _serve_http(self, starting: contextlib.ExitStack, listener: socket.socket) -> None:
        rooms = Rooms(
            access=self._access, enrolment=self._enrolment, bundles=self._bundles, rollouts=self._rollouts,
            reading=self._reading, health=self._health, metrics=self._metrics,
        )  # fmt: skip
        http = HttpListener(make_app(rooms, RegistryApp(self._blobs, self._access)), listener)
        _started(starting, http)
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        self.url = f"http://{host}:{http.port}"
        reachable = self.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        running = data_folder.RunningServer(url=reachable, mqtt_port=self.mqtt_port, pid=os.getpid())
        starting.callback(data_folder.withdraw, self._config.data_dir)
        data_folder.announce(self._config.data_dir, running)

    def _endpoint(self) -> MqttEndpoint:
        return MqttEndpoint(port=self._broker.address.port)

    def _tidy(self) -> None:
        self._retention.sweep()
        self._blob_sweep.sweep()

    def _after_batch(self, effects: Effects) -> None:
        self._wishes.publish(effects.lagging)
        if effects.rollouts:
            self._ticker.wake()

    def _reconnected(self) -> int:
        sent = self._wishes.publish_lagging()
        self._ticker.wake()
        return sent

    def _health(self) -> Health:
        reasons = [] if self.connected else ["no connection to the MQTT broker: devices are not heard"]
        reasons += [part.failure for part in self._threads if part.failure is not None]
        return Health(
            status="degraded" if reasons else "ok", version=__version__, broker_connected=self.connected,
            mqtt_port=self.mqtt_port, reasons=reasons,
        )  # fmt: skip

    def _metrics(self) -> str:
        counters = self._intake.counters
        states = self._rollouts.states()
        dropped = {
            "malformed": counters.malformed, "stranger": counters.strangers, "inactive": counters.inactive,
            "poison": counters.poison,
        }  # fmt: skip
        devices, online = self._reading.count()
        return render(
            [
                single("mindfleet_devices", "gauge", "Devices enrolled.", devices),
                single("mindfleet_devices_online", "gauge", "Devices online.", online),
                single("mindfleet_broker_connected", "gauge", "1 while the broker answers.", float(self.connected)),
                single("mindfleet_messages_stored_total", "counter", "Messages stored.", counters.stored),
                Metric("mindfleet_messages_dropped_total", "counter", "Messages dropped.",
                       {(("reason", reason),): count for reason, count in dropped.items()}),
                Metric("mindfleet_rollouts", "gauge", "Rollouts by state.",
                       {(("state", state),): count for state, count in states.items()}),
            ]
        )  # fmt: skip


def _started(starting: contextlib.ExitStack, part: _Startable) -> None:
    part.start()
    starting.callback(part.stop)
