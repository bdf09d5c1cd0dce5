"""Puts a SimulatedDevice on a real broker with paho, and enrols it over HTTP."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import paho.mqtt.client as mqtt
import requests
from paho.mqtt.enums import CallbackAPIVersion

from edge_contracts import names
from edge_contracts.bundle import parse_bundle
from edge_contracts.enrolment import EnrolRequest, EnrolResponse, parse_token
from tests.simulators.device import SimulatedDevice


class PahoWire:
    def __init__(self, client: mqtt.Client) -> None:
        self._client = client

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        self._client.publish(topic, payload, qos=1, retain=retain)


class MqttDevice(SimulatedDevice):
    """A device with its own credentials; downloads and checks every blob of what it is wished."""

    def __init__(self, token: str, device: str) -> None:
        parsed = parse_token(token)
        self.server = parsed.server
        request = msgspec.json.encode(EnrolRequest(secret=parsed.secret, device=device))
        answer = requests.post(f"{self.server}/api/v1/enroll", data=request, timeout=30)
        answer.raise_for_status()
        self.identity = msgspec.json.decode(answer.content, type=EnrolResponse)
        super().__init__(self.identity.device, self.identity.site, self.download)
        self.http = requests.Session()
        self.http.auth = (self.identity.device, self.identity.password)
        self.downloaded_bytes = 0
        self._client: mqtt.Client | None = None

    def connect(self) -> None:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=self.device, clean_session=True)
        client.username_pw_set(self.device, self.identity.password)
        client.reconnect_delay_set(1, 2)
        client.on_connect = self._on_connect
        client.on_message = lambda _c, _u, message: self.received(message.topic, message.payload)
        client.on_pre_connect = lambda _c, _u: client.will_set(*self.will(), qos=1, retain=True)
        client.will_set(*self.will(), qos=1, retain=True)
        client.connect("127.0.0.1", self.identity.mqtt.port)
        self._client = client
        client.loop_start()

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()

    def download(self, model: str, digest: str) -> None:
        """Raises OSError (a requests error is one)."""
        root = f"{self.server}/v2/{names.bundle_name(model)}"

        def blob(wanted: str) -> bytes:
            answer = self.http.get(f"{root}/blobs/{wanted}", timeout=30)
            answer.raise_for_status()
            if "sha256:" + hashlib.sha256(answer.content).hexdigest() != wanted:
                raise OSError(f"{wanted} has other bytes")
            self.downloaded_bytes += len(answer.content)
            return answer.content

        index = self.http.get(f"{root}/manifests/{digest}", timeout=30)
        index.raise_for_status()
        for wanted in parse_bundle(index.content, blob).blobs():
            blob(wanted)

    def _on_connect(self, client: mqtt.Client, _userdata: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            return
        client.subscribe(self.down_topic(), qos=1)
        self.connected(PahoWire(client))
