"""What every driver of fleet/broker/broker.py and link.py must do: subclass BrokerSuite and provide ``rig``."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

import pytest

from fleet.broker.broker import Broker, DeviceAccount
from fleet.broker.link import Incoming, ServerLink
from fleet.broker.outbox import Outgoing
from fleet.broker.verifiers import make_verifiers
from fleet.errors import AccountRefused, BrokerNotStarted, CredentialsRefused

DEADLINE_S = 15.0


class Device(Protocol):
    """A device's client, connected when it is made. ``received`` holds (topic, payload, retained)."""

    received: list[tuple[str, bytes, bool]]

    @property
    def connected(self) -> bool: ...
    @property
    def interruptions(self) -> int: ...
    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None: ...
    def subscribe(self, topic_filter: str) -> None:
        """Returns when the broker has answered, whatever it answered."""

    def die(self) -> None:
        """Gone without a goodbye."""


class Rig(Protocol):
    """A broker under test, not started, and its clients; it closes what it made."""

    @property
    def broker(self) -> Broker: ...
    def link(self, on_message: Callable[[Incoming], None]) -> ServerLink:
        """Not started."""

    def device(
        self, username: str, password: str, *, client_id: str | None = None, will: Outgoing | None = None
    ) -> Device:
        """Raises CredentialsRefused."""

    def crash(self) -> None:
        """The broker dies without warning; it comes back by itself."""


class Server:
    """The server's link with what it received, in order."""

    def __init__(self, rig: Rig, *, acknowledge: bool = True) -> None:
        self.received: list[Incoming] = []
        self._acknowledge = acknowledge
        self.link = rig.link(self._take)

    def _take(self, incoming: Incoming) -> None:
        self.received.append(incoming)
        if self._acknowledge:
            incoming.ack()

    def up(self, topic_filter: str = "mindedge/v1/+/+/up/#") -> Server:
        self.link.subscribe(topic_filter)
        self.link.start()
        eventually(lambda: self.link.connected)
        return self

    def payloads(self) -> list[bytes]:
        return [incoming.payload for incoming in self.received]

    def has(self, payload: bytes) -> bool:
        return payload in self.payloads()


def eventually(holds: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Polls a fact of another process or thread until it holds."""
    end_s = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end_s, f"not within {deadline_s:g} s"
        time.sleep(0.01)


def account(username: str, site: str = "lyon", password: str | None = None) -> DeviceAccount:
    """The password is ``pw-USERNAME`` unless given."""
    salt = hashlib.sha256(username.encode()).digest()[:16]
    return DeviceAccount(username, site, make_verifiers(password or f"pw-{username}", salt=salt))


def payloads(device: Device) -> list[bytes]:
    return [payload for _, payload, _ in device.received]


class BrokerSuite:
    """Started with the accounts cam-1 and cam-2 of site lyon; passwords are pw-USERNAME."""

    @pytest.fixture
    def rig(self) -> Iterator[Rig]:
        raise NotImplementedError("each driver provides its own")

    @pytest.fixture
    def started(self, rig: Rig) -> Rig:
        rig.broker.set_accounts([account("cam-1"), account("cam-2")])
        rig.broker.start()
        return rig

    def test_the_server_hears_a_device_and_the_device_hears_the_server(self, started: Rig) -> None:
        server, cam = Server(started).up(), started.device("cam-1", "pw-cam-1")
        cam.subscribe("mindedge/v1/lyon/cam-1/down/#")
        cam.publish("mindedge/v1/lyon/cam-1/up/event", b"\x00\xff up")
        server.link.publish("mindedge/v1/lyon/cam-1/down/command/7", b"do", retain=False)
        eventually(lambda: server.has(b"\x00\xff up") and bool(cam.received))
        assert (server.received[0].topic, server.received[0].retained) == ("mindedge/v1/lyon/cam-1/up/event", False)
        assert cam.received == [("mindedge/v1/lyon/cam-1/down/command/7", b"do", False)]

    def test_a_retained_message_waits_for_the_subscriber_and_only_the_last_one_does(self, started: Rig) -> None:
        server, cam = Server(started).up(), started.device("cam-1", "pw-cam-1")
        for wish in (b"first", b"second"):
            server.link.publish("mindedge/v1/lyon/cam-1/down/desired", wish, retain=True)
        cam.publish("mindedge/v1/lyon/cam-1/up/event", b"barrier")
        eventually(lambda: server.has(b"barrier"))
        late = started.device("cam-1", "pw-cam-1")
        late.subscribe("mindedge/v1/lyon/cam-1/down/#")
        eventually(lambda: (b"second", True) in [(payload, retained) for _, payload, retained in late.received])
        assert b"first" not in payloads(late)

    def test_an_empty_retained_message_removes_the_one_before(self, started: Rig) -> None:
        server, cam = Server(started).up(), started.device("cam-1", "pw-cam-1")
        cam.subscribe("mindedge/v1/lyon/cam-1/down/#")
        server.link.publish("mindedge/v1/lyon/cam-1/down/desired", b"wish", retain=True)
        eventually(lambda: b"wish" in payloads(cam))
        server.link.publish("mindedge/v1/lyon/cam-1/down/desired", b"", retain=True)
        eventually(lambda: b"" in payloads(cam))
        late = started.device("cam-1", "pw-cam-1")
        late.subscribe("mindedge/v1/lyon/cam-1/down/#")
        server.link.publish("mindedge/v1/lyon/cam-1/down/command/1", b"barrier", retain=False)
        eventually(lambda: b"barrier" in payloads(late))
        assert payloads(late) == [b"barrier"]

    def test_a_device_that_dies_leaves_its_last_will(self, started: Rig) -> None:
        server = Server(started).up()
        will = Outgoing("mindedge/v1/lyon/cam-1/up/status", b"offline", retain=True)
        started.device("cam-1", "pw-cam-1", will=will).die()
        eventually(lambda: server.has(b"offline"))

    def test_a_device_cannot_write_what_is_not_its_own(self, started: Rig) -> None:
        server, victim = Server(started).up("mindedge/v1/#"), started.device("cam-2", "pw-cam-2")
        victim.subscribe("mindedge/v1/lyon/cam-2/down/#")
        cam = started.device("cam-1", "pw-cam-1")
        for topic in (
            "mindedge/v1/lyon/cam-2/up/status",
            "mindedge/v1/lyon/cam-2/down/desired",
            "mindedge/v1/lyon/cam-1/down/desired",
            "mindedge/v1/paris/cam-1/up/status",
            "mindedge/v1/lyon/cam-1/upwards",
        ):
            cam.publish(topic, b"forged", retain=True)
        cam.publish("mindedge/v1/lyon/cam-1/up/event", b"barrier")
        eventually(lambda: server.has(b"barrier"))
        server.link.publish("mindedge/v1/lyon/cam-2/down/command/1", b"barrier", retain=False)
        eventually(lambda: b"barrier" in payloads(victim))
        assert b"forged" not in server.payloads() + payloads(victim)

    def test_a_device_cannot_write_what_is_not_its_own_by_a_last_will(self, started: Rig) -> None:
        server = Server(started).up("mindedge/v1/#")
        forged = Outgoing("mindedge/v1/lyon/cam-2/up/status", b"forged", retain=True)
        with suppress(CredentialsRefused):  # as good an answer
            started.device("cam-1", "pw-cam-1", will=forged).die()
        started.device("cam-2", "pw-cam-2").publish("mindedge/v1/lyon/cam-2/up/event", b"barrier")
        eventually(lambda: server.has(b"barrier"))
        assert not server.has(b"forged")

    @pytest.mark.parametrize(
        "greedy",
        [
            "mindedge/v1/lyon/cam-2/down/#",
            "mindedge/v1/lyon/cam-2/down/desired",
            "mindedge/v1/lyon/+/down/#",
            "mindedge/v1/+/+/up/#",
            "+/v1/#",
            "#",
            "$MQTT/#",
            "$MQTT/sub/#",
            "$SYS/#",
        ],
    )
    def test_a_device_cannot_read_what_is_not_its_own_not_even_retained(self, started: Rig, greedy: str) -> None:
        server, other = Server(started).up(), started.device("cam-2", "pw-cam-2")
        other.subscribe("mindedge/v1/lyon/cam-2/down/#")
        server.link.publish("mindedge/v1/lyon/cam-2/down/desired", b"secret", retain=True)
        other.publish("mindedge/v1/lyon/cam-2/up/status", b"secret too", retain=True)
        eventually(lambda: b"secret" in payloads(other) and server.has(b"secret too"))
        cam = started.device("cam-1", "pw-cam-1")
        cam.subscribe(greedy)
        cam.subscribe("mindedge/v1/lyon/cam-1/down/#")
        server.link.publish("mindedge/v1/lyon/cam-2/down/command/1", b"secret three", retain=False)
        for barrier in (b"1", b"2", b"3"):
            server.link.publish("mindedge/v1/lyon/cam-1/down/command/1", barrier, retain=False)
        eventually(lambda: {b"1", b"2", b"3"} <= set(payloads(cam)) and b"secret three" in payloads(other))
        assert {topic for topic, _, _ in cam.received} == {"mindedge/v1/lyon/cam-1/down/command/1"}

    def test_anothers_client_id_opens_none_of_its_topics(self, started: Rig) -> None:
        server, victim = Server(started).up(), started.device("cam-2", "pw-cam-2")
        victim.subscribe("mindedge/v1/lyon/cam-2/down/#")
        thief = started.device("cam-1", "pw-cam-1", client_id="cam-2")
        thief.subscribe("mindedge/v1/lyon/cam-2/down/#")
        thief.subscribe("mindedge/v1/lyon/cam-1/down/#")
        server.link.publish("mindedge/v1/lyon/cam-2/down/command/1", b"secret", retain=False)
        server.link.publish("mindedge/v1/lyon/cam-1/down/command/1", b"barrier", retain=False)
        eventually(lambda: b"barrier" in payloads(thief))
        assert payloads(thief) == [b"barrier"]

    @pytest.mark.parametrize(
        ("username", "password"),
        [("cam-9", "pw-cam-9"), ("cam-1", "pw-cam-2"), ("cam-1", ""), ("", ""), ("@server", "")],
    )
    def test_an_unknown_user_or_a_wrong_password_is_refused(self, started: Rig, username: str, password: str) -> None:
        with pytest.raises(CredentialsRefused):
            started.device(username, password)

    def test_a_removed_account_is_thrown_out_and_stays_out(self, started: Rig) -> None:
        leaving, staying = started.device("cam-1", "pw-cam-1"), started.device("cam-2", "pw-cam-2")
        started.broker.set_accounts([account("cam-2")])
        eventually(lambda: not leaving.connected)
        with pytest.raises(CredentialsRefused):
            started.device("cam-1", "pw-cam-1")
        assert (staying.connected, staying.interruptions) == (True, 0)

    def test_a_changed_password_throws_the_old_one_out(self, started: Rig) -> None:
        old = started.device("cam-1", "pw-cam-1")
        started.broker.set_accounts([account("cam-1", password="a new one")])
        eventually(lambda: not old.connected)
        with pytest.raises(CredentialsRefused):
            started.device("cam-1", "pw-cam-1")
        assert started.device("cam-1", "a new one").connected

    def test_an_added_account_works_at_once_while_the_others_stay_connected(self, started: Rig) -> None:
        server, staying = Server(started).up(), started.device("cam-2", "pw-cam-2")
        started.broker.set_accounts([account("cam-1"), account("cam-2"), account("cam-3", site="paris")])
        started.device("cam-3", "pw-cam-3").publish("mindedge/v1/paris/cam-3/up/birth", b"born", retain=True)
        staying.publish("mindedge/v1/lyon/cam-2/up/event", b"still here")
        eventually(lambda: server.has(b"born") and server.has(b"still here"))
        assert staying.interruptions == 0

    def test_an_account_that_comes_twice_is_refused_and_the_others_stay_as_they_were(self, started: Rig) -> None:
        with pytest.raises(AccountRefused, match="cam-2"):
            started.broker.set_accounts([account("cam-2"), account("cam-2", site="paris")])
        assert started.device("cam-1", "pw-cam-1").connected

    def test_after_a_crash_everyone_comes_back_to_the_same_address(self, started: Rig) -> None:
        server, address = Server(started).up(), started.broker.address
        started.crash()
        server.link.publish("mindedge/v1/lyon/cam-1/down/desired", b"wish", retain=True)
        cam = started.device("cam-1", "pw-cam-1")
        cam.subscribe("mindedge/v1/lyon/cam-1/down/#")
        cam.publish("mindedge/v1/lyon/cam-1/up/birth", b"here again", retain=True)
        eventually(lambda: server.has(b"here again") and b"wish" in payloads(cam))
        assert (started.broker.address, started.broker.alive()) == (address, True)

    def test_an_account_added_right_after_a_crash_works(self, started: Rig) -> None:
        started.crash()
        started.broker.set_accounts([account("cam-3")])
        assert started.device("cam-3", "pw-cam-3").connected

    def test_retained_messages_survive_stop_and_start(self, started: Rig) -> None:
        server, cam = Server(started).up(), started.device("cam-1", "pw-cam-1")
        cam.publish("mindedge/v1/lyon/cam-1/up/birth", b"born", retain=True)
        eventually(lambda: server.has(b"born"))
        server.link.stop()
        started.broker.stop()
        assert not started.broker.alive()
        started.broker.start()
        again = Server(started).up()
        eventually(lambda: (b"born", True) in [(message.payload, message.retained) for message in again.received])

    def test_what_is_not_acknowledged_comes_again_after_a_reconnect_and_what_is_does_not(self, started: Rig) -> None:
        server, cam = Server(started, acknowledge=False).up(), started.device("cam-1", "pw-cam-1")
        cam.publish("mindedge/v1/lyon/cam-1/up/event", b"committed")
        cam.publish("mindedge/v1/lyon/cam-1/up/event", b"not committed")
        eventually(lambda: len(server.received) == 2)
        next(message for message in server.received if message.payload == b"committed").ack()
        server.link.stop()
        again = Server(started).up()
        cam.publish("mindedge/v1/lyon/cam-1/up/event", b"barrier")
        eventually(lambda: again.has(b"not committed") and again.has(b"barrier"))
        assert not again.has(b"committed")

    def test_messages_wait_while_the_server_is_away(self, started: Rig) -> None:
        Server(started).up().link.stop()
        started.device("cam-1", "pw-cam-1").publish("mindedge/v1/lyon/cam-1/up/event", b"meanwhile")
        server = Server(started).up()
        eventually(lambda: server.has(b"meanwhile"))

    def test_a_callback_that_fails_costs_one_message_only(self, started: Rig) -> None:
        seen: list[bytes] = []

        def take(incoming: Incoming) -> None:
            seen.append(incoming.payload)
            incoming.ack()
            if incoming.payload == b"\xff":
                raise ValueError("not UTF-8")

        link, cam = started.link(take), started.device("cam-1", "pw-cam-1")
        link.subscribe("mindedge/v1/+/+/up/#")
        link.start()
        eventually(lambda: link.connected)
        for payload in (b"\xff", b"fine"):
            cam.publish("mindedge/v1/lyon/cam-1/up/event", payload)
        eventually(lambda: seen == [b"\xff", b"fine"])

    def test_before_the_start_there_are_no_credentials_and_nothing_is_alive(self, rig: Rig) -> None:
        assert not rig.broker.alive()
        with pytest.raises(BrokerNotStarted):
            _ = rig.broker.server_credentials

    def test_stopping_twice_is_harmless(self, started: Rig) -> None:
        started.broker.stop()
        started.broker.stop()
        assert not started.broker.alive()
