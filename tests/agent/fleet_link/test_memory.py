from __future__ import annotations

import pytest

from agent.fleet_link.link import Link
from agent.fleet_link.memory import MemoryBroker, MemoryLink
from tests.suites.link_suite import ACCOUNT, LinkSuite


class MemoryRig:
    def __init__(self) -> None:
        self.broker = MemoryBroker()

    def link(self) -> MemoryLink:
        return MemoryLink(self.broker, ACCOUNT)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.broker.publish(topic, payload, retain=retain)

    def received(self, topic: str) -> list[bytes]:
        return [sent.payload for sent in self.broker.sent if sent.topic == topic]

    def break_connection(self, link: Link) -> None:
        assert isinstance(link, MemoryLink)
        link.drop()

    def crash(self) -> None:
        self.broker.kill()

    def recover(self, link: Link) -> None:
        self.broker.is_up = True
        assert isinstance(link, MemoryLink)
        link.reconnect()


class TestMemoryLink(LinkSuite):
    @pytest.fixture
    def rig(self) -> MemoryRig:
        return MemoryRig()
