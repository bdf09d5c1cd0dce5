from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.broker.broker import BrokerAddress
from fleet.broker.child_broker import Limits
from fleet.broker.mosquitto import MosquittoDialect, mosquitto_broker
from tests.fleet.broker.child_suite import ChildSuite
from tests.fleet.broker.mqtt_rig import MqttRig, require

pytestmark = [pytest.mark.mosquitto, pytest.mark.system]


class TestMosquitto(ChildSuite):
    factory = "fleet.broker.mosquitto:mosquitto_broker"

    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[MqttRig]:
        require(MosquittoDialect())
        folder = tmp_path / "data of the broker"
        rig = MqttRig(mosquitto_broker(folder, BrokerAddress("127.0.0.1", 0), limits=Limits(port_grace_s=0.1)))
        yield rig
        rig.close()
