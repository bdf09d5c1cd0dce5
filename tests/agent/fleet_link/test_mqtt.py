from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from paho.mqtt.client import convert_connack_rc_to_reason_code
from paho.mqtt.enums import ConnackCode

from agent.clock import SystemClock
from agent.config import LinkConfig
from agent.fleet_link.link import Link
from agent.fleet_link.mqtt import Address, MqttLink, failure_of, refusal_of
from agent.fleet_link.pacing import Ended
from fleet.broker.broker import BrokerAddress, DeviceAccount
from fleet.broker.child_broker import ChildBroker, Limits
from fleet.broker.embedded import NatsDialect, embedded_broker
from fleet.broker.mosquitto import MosquittoDialect, mosquitto_broker
from fleet.broker.verifiers import make_verifiers
from tests.fleet.broker.mqtt_rig import MqttRig, require
from tests.suites.link_suite import ACCOUNT, Device, LinkSuite, eventually

QUICK = LinkConfig(first_retry_s=0.05, longest_retry_s=0.3, connect_timeout_s=2.0, keepalive_s=5)


class BrokerRig:
    """A real broker, the fleet's own client as the server, and links of the device."""

    def __init__(self, broker: ChildBroker, config: LinkConfig = QUICK) -> None:
        self._rig = MqttRig(broker)
        self._config = config
        self._got: list[tuple[str, bytes]] = []
        self._links: list[MqttLink] = []
        account = DeviceAccount(ACCOUNT.device, ACCOUNT.site, make_verifiers(ACCOUNT.password, salt=bytes(16)))
        broker.set_accounts([account])
        broker.start()
        self._server = self._rig.link(
            lambda message: (self._got.append((message.topic, message.payload)), message.ack())
        )
        self._server.subscribe("mindedge/v1/+/+/up/#")
        self._server.start()
        eventually(lambda: self._server.connected)

    def link(self) -> MqttLink:
        address = self._rig.broker.address
        link = MqttLink(
            ACCOUNT, [Address(address.host, address.port)], self._config, SystemClock(), random.Random(3)
        )  # fmt: skip
        self._links.append(link)
        return link

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self._server.publish(topic, payload, retain)

    def received(self, topic: str) -> list[bytes]:
        return [payload for name, payload in list(self._got) if name == topic]

    def break_connection(self, link: Link) -> None:
        assert isinstance(link, MqttLink)
        connection = link._connection
        assert connection is not None
        opened = connection._client.socket()
        assert opened is not None
        opened.shutdown(socket.SHUT_RDWR)

    def take_identity_away(self) -> None:
        self._rig.broker.set_accounts([])

    def crash(self) -> None:
        self._rig.crash()

    def recover(self, link: Link) -> None:
        del link

    def close(self) -> None:
        for link in self._links:
            link.stop()
        self._rig.close()


@pytest.mark.nats
class TestMqttLinkOnNats(LinkSuite):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[BrokerRig]:
        require(NatsDialect())
        rig = BrokerRig(
            embedded_broker(tmp_path / "nats", BrokerAddress("127.0.0.1", 0), limits=Limits(port_grace_s=0.1))
        )
        yield rig
        rig.close()


@pytest.mark.mosquitto
class TestMqttLinkOnMosquitto(LinkSuite):
    broker_keeps_what_it_acknowledged = False  # a kill costs it the server's session as of the last autosave (10 s)

    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[BrokerRig]:
        require(MosquittoDialect())
        folder = tmp_path / "mosquitto"
        rig = BrokerRig(mosquitto_broker(folder, BrokerAddress("127.0.0.1", 0), limits=Limits(port_grace_s=0.1)))
        yield rig
        rig.close()


@pytest.mark.nats
def test_two_devices_with_one_identity_back_off_and_say_so(tmp_path: Path) -> None:
    require(NatsDialect())
    config = LinkConfig(
        first_retry_s=0.01, longest_retry_s=0.05, takeover_sessions=3, takeover_wait_s=1.0, connect_timeout_s=2.0
    )
    rig = BrokerRig(
        embedded_broker(tmp_path / "nats", BrokerAddress("127.0.0.1", 0), limits=Limits(port_grace_s=0.1)), config
    )
    devices = [Device(rig, tmp_path / name) for name in ("a", "b")]
    for device in devices:
        device.start()
    try:
        topic = "mindedge/v1/lyon/cam-1/up/event"
        eventually(lambda: any(b"link.duplicate_id" in payload for payload in rig.received(topic)))
        births = "mindedge/v1/lyon/cam-1/up/birth"
        before = len(rig.received(births))
        threading.Event().wait(1.0)
        assert len(rig.received(births)) - before <= 4, "they go on taking each other's connection"
    finally:
        for device in devices:
            device.session.stop()
        rig.close()


def test_a_broker_that_never_answers_is_left_after_the_timeout(tmp_path: Path) -> None:
    """Without quorum a NATS cluster accepts the connection and never answers CONNECT."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = LinkConfig(connect_timeout_s=0.2, first_retry_s=0.01, longest_retry_s=0.02)
        link = MqttLink(
            ACCOUNT, [Address("127.0.0.1", silent.getsockname()[1])], config, SystemClock(), random.Random(1)
        )  # fmt: skip
        device = Device(_One(link), tmp_path)
        device.start()
        accepted: list[Callable[[], None]] = []
        silent.settimeout(5)
        for _ in range(2):
            accepted.append(silent.accept()[0].close)
        device.session.stop()
        assert not device.session.connected
        for close in accepted:
            close()


@pytest.mark.nats
def test_an_identity_that_is_taken_away_is_told_again_and_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    require(NatsDialect())
    rig = BrokerRig(
        embedded_broker(tmp_path / "nats", BrokerAddress("127.0.0.1", 0), limits=Limits(port_grace_s=0.1))
    )  # fmt: skip
    device = Device(rig, tmp_path / "a")
    device.start()
    try:
        eventually(lambda: device.session.connected)
        assert device.session.link_detail == ""
        rig.take_identity_away()
        eventually(lambda: "no longer accepts this identity" in device.session.link_detail)
        warnings = [r.getMessage() for r in caplog.records if r.name == "agent.fleet_link.mqtt" and r.levelno >= 30]
        assert "refused by the broker" in warnings[-1]
        assert len([text for text in warnings if "no longer accepts" in text]) == 1
        assert not any("Unspecified" in text for text in warnings)
    finally:
        device.session.stop()
        rig.close()


@pytest.mark.parametrize("number", [4, 5])
def test_a_refused_log_in_names_the_ways_out(number: int) -> None:
    told = refusal_of(convert_connack_rc_to_reason_code(ConnackCode(number)))
    assert "mindie enroll" in told
    assert failure_of(Ended(0.1, False, True), told) == "refused by the broker at"


def test_a_broker_that_is_full_is_not_taken_for_a_lost_identity() -> None:
    told = refusal_of(convert_connack_rc_to_reason_code(ConnackCode.CONNACK_REFUSED_SERVER_UNAVAILABLE))
    assert "identity" not in told


class _One:
    """A rig with this one link."""

    def __init__(self, link: MqttLink) -> None:
        self._link = link

    def link(self) -> MqttLink:
        return self._link
