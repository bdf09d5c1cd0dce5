from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from fleet.broker.broker import Broker
from fleet.broker.link import Incoming, ServerLink
from fleet.broker.memory import MemoryBroker, MemoryConnection, Message
from fleet.broker.memory_link import MemoryLink
from fleet.broker.outbox import Outgoing
from tests.suites.broker_suite import BrokerSuite, account


class MemoryDevice:
    def __init__(self) -> None:
        self.received: list[tuple[str, bytes, bool]] = []
        self._connection: MemoryConnection | None = None

    def open(self, broker: MemoryBroker, username: str, password: str, client_id: str | None, will: Outgoing | None):
        self._connection = broker.connect(username, password, self._take, client_id=client_id, will=will)
        return self

    def _take(self, message: Message) -> None:
        self.received.append((message.topic, message.payload, message.retained))

    @property
    def _open(self) -> MemoryConnection:
        assert self._connection is not None
        return self._connection

    @property
    def connected(self) -> bool:
        return self._open.connected

    @property
    def interruptions(self) -> int:
        return 0 if self.connected else 1

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        self._open.publish(topic, payload, retain)

    def subscribe(self, topic_filter: str) -> None:
        self._open.subscribe(topic_filter)

    def die(self) -> None:
        self._open.drop()


class MemoryRig:
    def __init__(self) -> None:
        self.broker = MemoryBroker()

    def link(self, on_message: Callable[[Incoming], None]) -> MemoryLink:
        return self.broker.link(on_message)

    def device(
        self, username: str, password: str, *, client_id: str | None = None, will: Outgoing | None = None
    ) -> MemoryDevice:
        return MemoryDevice().open(self.broker, username, password, client_id, will)

    def crash(self) -> None:
        self.broker.restart()


class TestMemory(BrokerSuite):
    @pytest.fixture
    def rig(self) -> MemoryRig:
        return MemoryRig()


def test_it_has_the_types_of_the_seams() -> None:
    broker: Broker = MemoryBroker()
    link: ServerLink = MemoryBroker().link(lambda _: None)
    assert not broker.alive()
    assert not link.connected


def test_a_message_has_arrived_when_publish_returns() -> None:
    broker, seen = MemoryBroker(), []
    broker.set_accounts([account("cam-1")])
    broker.start()
    link = broker.link(seen.append)
    link.subscribe("mindedge/v1/#")
    link.start()
    broker.connect("cam-1", "pw-cam-1", lambda _: None).publish("mindedge/v1/lyon/cam-1/up/event", b"x")
    assert [message.payload for message in seen] == [b"x"]


def test_a_callback_may_publish_and_its_message_comes_after() -> None:
    broker, order = MemoryBroker(), []
    broker.set_accounts([account("cam-1")])
    broker.start()

    def answer(incoming: Incoming) -> None:
        order.append(incoming.payload)
        if incoming.payload == b"question":
            link.publish("mindedge/v1/lyon/cam-1/down/command/1", b"answer", retain=False)
            order.append(b"answered")

    link = broker.link(answer)
    link.subscribe("mindedge/v1/#")
    link.start()
    broker.connect("cam-1", "pw-cam-1", lambda _: None).publish("mindedge/v1/lyon/cam-1/up/event", b"question")
    assert order == [b"question", b"answered", b"answer"]


def test_publishing_from_many_threads_loses_nothing() -> None:
    broker, seen = MemoryBroker(), []
    broker.set_accounts([account("cam-1")])
    broker.start()
    link = broker.link(lambda incoming: seen.append(incoming.payload))
    link.subscribe("mindedge/v1/#")
    link.start()
    cam = broker.connect("cam-1", "pw-cam-1", lambda _: None)
    threads = [
        threading.Thread(
            target=lambda n=n: [cam.publish("mindedge/v1/lyon/cam-1/up/event", b"%d.%d" % (n, i)) for i in range(100)]
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(b"%d.%d" % (n, i) for n in range(4) for i in range(100))
