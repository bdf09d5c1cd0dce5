from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.broker.broker import BrokerAddress
from fleet.broker.child_broker import Limits
from fleet.broker.embedded import NatsDialect, embedded_broker
from tests.fleet.broker.child_suite import ChildSuite
from tests.fleet.broker.mqtt_rig import MqttRig, require

pytestmark = [pytest.mark.nats, pytest.mark.system]


class TestNats(ChildSuite):
    factory = "fleet.broker.embedded:embedded_broker"

    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[MqttRig]:
        require(NatsDialect())
        folder = tmp_path / 'data "of the" broker'
        rig = MqttRig(embedded_broker(folder, BrokerAddress("127.0.0.1", 0), limits=Limits(port_grace_s=0.1)))
        yield rig
        rig.close()
