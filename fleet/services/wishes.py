"""Sends devices their wishes. Which wish, and who has not read it, is always taken from the store."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from edge_contracts import messages, topics
from fleet.domain.device import Device, DeviceState
from fleet.domain.wish import Wish, desired
from fleet.errors import PublishRefused
from fleet.store.unit_of_work import Store, UnitOfWork

_log = logging.getLogger(__name__)


class Publisher(Protocol):
    """What this room needs of the broker's link."""

    def publish(self, topic: str, payload: bytes, retain: bool) -> None: ...


class Wishes:
    """Call ``publish`` after the commit that changed the wishes; ``publish_lagging`` makes good a kill in between."""

    def __init__(self, store: Store, publisher: Publisher) -> None:
        self._store = store
        self._publisher = publisher

    def publish(self, devices: Iterable[str]) -> None:
        """The newest wish of each device, retained. Repeats do no harm: the version is the same."""
        wanted = sorted(set(devices))
        if not wanted:
            return
        with self._store.read() as work:
            found = work.devices.find({"id": wanted}, without=("capabilities", "reported", "vitals", "choices"))
            self._send(work, found)

    def publish_lagging(self) -> int:
        """To all devices that have not said that they read their newest wish; how many. For starts and reconnects."""
        with self._store.read() as work:
            lagging = [
                d
                for d in work.devices.find({"state": DeviceState.ACTIVE}, without=("capabilities", "vitals", "choices"))
                if d.lags
            ]
            self._send(work, lagging)
        return len(lagging)

    def _send(self, work: UnitOfWork, devices: list[Device]) -> None:
        wishes: dict[str, list[Wish]] = {}
        for wish in work.wishes.find({"device": [device.id for device in devices]}) if devices else []:
            wishes.setdefault(wish.device, []).append(wish)
        for device in devices:
            payload = messages.encode(desired(device, wishes.get(device.id, [])))
            try:
                self._publisher.publish(topics.desired(device.site, device.id), payload, retain=True)
            except PublishRefused as error:
                _log.warning("wish for %s is sent when the broker is back: %s", device.id, error)
