"""What the API shows of devices: the records of a device and what was measured on it, gathered in a few queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edge_contracts.latency import LatencySketch
from fleet.domain.device import Device
from fleet.domain.history import DeviceEvent
from fleet.domain.wish import Wish
from fleet.errors import NotFound
from fleet.services.clock import NowMs
from fleet.store.unit_of_work import Store, UnitOfWork

WINDOW_S = 900
STAGE = "total"


@dataclass(frozen=True)
class Served:
    """Latencies (merged) and counts of one bundle on one device over the window."""

    sketch: LatencySketch
    requests: int
    errors: int


@dataclass(frozen=True)
class DeviceRecords:
    """A device with its wishes by model and what it served by (model, digest)."""

    device: Device
    wishes: Mapping[str, Wish]
    served: Mapping[tuple[str, str], Served]


class Reading:
    """Read only."""

    def __init__(self, store: Store, now_ms: NowMs, *, window_s: float = WINDOW_S) -> None:
        self._store = store
        self._now_ms = now_ms
        self._window_s = window_s

    def devices(self) -> list[DeviceRecords]:
        """All devices by id."""
        with self._store.read() as work:
            return self._records(work, work.devices.find())

    def device(self, name: str) -> tuple[DeviceRecords, list[DeviceEvent]]:
        """One device and its latest events, newest first. Raises NotFound."""
        with self._store.read() as work:
            device = work.devices.get(name)
            if device is None:
                raise NotFound("device", name)
            events: list[DeviceEvent] = [*work.events.find({"device": name}, newest_by="at_ms", limit=100)]
            return self._records(work, [device])[0], events

    def online(self) -> set[str]:
        """Ids of the devices that are online."""
        return {device.id for device in self._light() if device.online}

    def count(self) -> tuple[int, int]:
        """How many devices there are, and how many of them are online."""
        devices = self._light()
        return len(devices), sum(device.online for device in devices)

    def _light(self) -> list[Device]:
        with self._store.read() as work:
            return work.devices.find(without=("capabilities", "reported", "vitals", "choices"))

    def _records(self, work: UnitOfWork, devices: list[Device]) -> list[DeviceRecords]:
        one = {"device": devices[0].id} if len(devices) == 1 else {}
        wishes: dict[str, dict[str, Wish]] = {}
        for wish in work.wishes.find(one):
            wishes.setdefault(wish.device, {})[wish.model] = wish
        served = self._served(work, one)
        return [DeviceRecords(d, wishes.get(d.id, {}), served.get(d.id, {})) for d in devices]

    def _served(self, work: UnitOfWork, one: dict[str, str]) -> dict[str, dict[tuple[str, str], Served]]:
        since_ms = self._now_ms() - int(1000 * self._window_s)
        served: dict[str, dict[tuple[str, str], Served]] = {}
        for row in work.latencies.find({**one, "stage": STAGE}, at_least={"minute_ms": since_ms}):
            of_device = served.setdefault(row.device, {})
            known = of_device.get((row.model, row.digest)) or Served(LatencySketch(), 0, 0)
            known.sketch.merge(LatencySketch.from_data(row.sketch))
            of_device[row.model, row.digest] = Served(
                known.sketch, known.requests + row.requests, known.errors + row.errors
            )
        return served
