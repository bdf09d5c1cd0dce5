"""Takes in what devices say: presence, facts, reports, telemetry, events. The reported state is the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from edge_contracts.deployment import TERMINAL, DeploymentState
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import Birth, Event, Reported, Status, Telemetry
from edge_contracts.topics import Topic
from fleet.domain.device import Device, DeviceState, Vitals, after_birth, after_status, newer_report, seen, with_report
from fleet.domain.history import LatencyMinute
from fleet.domain.observation import observe
from fleet.domain.rollout import Target
from fleet.store.stored_event import StoredEvent
from fleet.store.unit_of_work import Store, UnitOfWork

Message = Birth | Status | Reported | Telemetry | Event
MINUTE_MS = 60_000
REPEATED_WITHIN_MS = 15 * MINUTE_MS
_MAX_TEXT = 2000
_OPEN = (None, *sorted(set(DeploymentState) - TERMINAL))


@dataclass(frozen=True)
class Received:
    """A decoded message. ``retained``: the broker kept it from before. ``at_ms``: when the server took it."""

    topic: Topic
    message: Message
    retained: bool
    at_ms: int


@dataclass
class Effects:
    """What a batch came to, after its commit: rollouts to look at, devices whose wish they have not read.

    strangers, inactive: messages that were dropped, of devices nobody knows and of those that are no longer active.
    """

    rollouts: set[str] = field(default_factory=set)
    lagging: set[str] = field(default_factory=set)
    strangers: int = 0
    inactive: int = 0


class Inventory:
    """``ingest`` is called by one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def ingest(self, batch: Sequence[Received]) -> Effects:
        """Takes the messages in, all in one transaction, in their order. The same message twice changes nothing.

        Messages of unknown devices, or on another site's topic, are counted as strangers and dropped; those of
        quarantined and decommissioned devices (the broker may deliver some late) as inactive. When it raises
        (StoreError, or for a number that no database takes), nothing is changed.
        """
        effects = Effects()
        with self._store.write() as work:
            ids = sorted({item.topic.device for item in batch})
            devices = {device.id: device for device in work.devices.find({"id": ids})}
            before = dict(devices)
            intake = _Intake(work, devices, effects)
            for item in batch:
                intake.take(item)
            changed = [device for name, device in devices.items() if device is not before[name]]
            _save_devices(work, changed, before)
            intake.flush()
            effects.rollouts |= intake.presence_changes(before)
            work.commit()
        return effects


def _save_devices(work: UnitOfWork, changed: Iterable[Device], before: dict[str, Device]) -> None:
    """Only the fields that changed are written: telemetry must not rewrite kilobytes of facts."""
    light: list[Device] = []
    heavy: list[Device] = []
    for device in changed:
        old = before[device.id]
        same = device.capabilities is old.capabilities and device.reported is old.reported
        (light if same else heavy).append(device)
    work.devices.save(light, only=("presence", "vitals"))
    work.devices.save(
        heavy, only=("presence", "vitals", "capabilities", "agent_version", "serving_port", "reported", "choices")
    )


class _Intake:
    """One batch."""

    def __init__(self, work: UnitOfWork, devices: dict[str, Device], effects: Effects) -> None:
        self._work = work
        self._devices = devices
        self._effects = effects
        self._latency: dict[tuple[str, str, str, str, int], LatencyMinute] = {}
        self._events: list[StoredEvent] = []
        self._reports: list[tuple[str, Reported, int, bool]] = []
        self._takers: dict[type, Callable[[Device, Received], Device]] = {
            Birth: self._birth, Status: self._status, Reported: self._reported, Telemetry: self._telemetry,
            Event: self._event,
        }  # fmt: skip

    def take(self, item: Received) -> None:
        device = self._devices.get(item.topic.device)
        if device is None or device.site != item.topic.site:
            self._effects.strangers += 1
            return
        if device.state is not DeviceState.ACTIVE:
            self._effects.inactive += 1
            return
        self._devices[device.id] = self._takers[type(item.message)](device, item)

    def flush(self) -> None:
        """Writes what is not a field of a device."""
        self._work.latencies.save(self._merged_with_stored())
        self._work.events.save(self._events)
        if self._reports:
            self._observe_all()

    def presence_changes(self, before: dict[str, Device]) -> set[str]:
        """Rollouts with an open target on a device that came or went."""
        moved = [name for name, device in self._devices.items() if device.online != before[name].online]
        return {str(name) for name in self._work.targets.count("rollout", {"device": moved, "state": _OPEN})}

    def _birth(self, device: Device, item: Received) -> Device:
        birth = item.message
        assert isinstance(birth, Birth)
        if birth.session < device.presence.session:
            return device
        return msgspec.structs.replace(
            device,
            presence=after_birth(device.presence, birth.session, item.at_ms, retained=item.retained),
            capabilities=birth.capabilities,
            agent_version=birth.agent_version[:100],
            serving_port=birth.serving_port,
        )

    def _status(self, device: Device, item: Received) -> Device:
        assert isinstance(item.message, Status)
        presence = after_status(device.presence, item.message.online, item.message.session, item.at_ms)
        return device if presence == device.presence else msgspec.structs.replace(device, presence=presence)

    def _reported(self, device: Device, item: Received) -> Device:
        reported = item.message
        assert isinstance(reported, Reported)
        device = self._sign_of_life(device, item)
        is_newer = newer_report(device, reported)
        self._reports.append((device.id, reported, item.at_ms, is_newer))
        if is_newer:
            device = with_report(device, reported)
        if device.lags:
            self._effects.lagging.add(device.id)
        return device

    def _telemetry(self, device: Device, item: Received) -> Device:
        telemetry = item.message
        assert isinstance(telemetry, Telemetry)
        device = self._sign_of_life(device, item)
        if 0 <= device.vitals.to_ms - telemetry.to_ms < REPEATED_WITHIN_MS:
            return device  # the same again; further back, the device's clock was set back
        for model, latency in telemetry.models.items():
            for stage, data in latency.stages.items():
                minute_ms = item.at_ms - item.at_ms % MINUTE_MS
                row = LatencyMinute(
                    device=device.id, model=model[:64], digest=latency.digest[:80], stage=stage[:32],
                    minute_ms=minute_ms, version=latency.version[:64], sketch=LatencySketch.from_data(data).to_data(),
                    requests=latency.requests, errors=latency.errors,
                )  # fmt: skip
                self._merge(row)
        vitals = Vitals(
            to_ms=telemetry.to_ms, rss_mb=telemetry.rss_mb, cpu_percent=telemetry.cpu_percent,
            temp_c=telemetry.temp_c, throttled=telemetry.throttled,
        )  # fmt: skip
        return msgspec.structs.replace(device, vitals=vitals)

    def _merge(self, row: LatencyMinute) -> None:
        known = self._latency.get(_key(row))
        self._latency[_key(row)] = row if known is None else _sum(known, row)

    def _merged_with_stored(self) -> list[LatencyMinute]:
        if not self._latency:
            return []
        stored = self._work.latencies.find(
            {"device": {row.device for row in self._latency.values()}},
            at_least={"minute_ms": min(row.minute_ms for row in self._latency.values())},
        )
        known = {_key(row): row for row in stored}
        return [_sum(known[key], row) if key in known else row for key, row in self._latency.items()]

    def _event(self, device: Device, item: Received) -> Device:
        event = item.message
        assert isinstance(event, Event)
        self._events.append(
            StoredEvent(
                device=device.id, id=event.id[:100], at_ms=event.at_ms, kind=event.kind[:100],
                text=event.text[:_MAX_TEXT], model=event.model, deployment=event.deployment, facts=event.facts,
                received_ms=item.at_ms,
            )
        )  # fmt: skip
        return self._sign_of_life(device, item)

    def _sign_of_life(self, device: Device, item: Received) -> Device:
        if item.retained:
            return device
        return msgspec.structs.replace(device, presence=seen(device.presence, item.at_ms))

    def _observe_all(self) -> None:
        """A report that comes late (the broker had kept a newer one) still tells how a deployment ended, no more."""
        targets: dict[str, list[Target]] = {}
        for target in self._work.targets.find({"device": {name for name, *_ in self._reports}}):
            targets.setdefault(target.device, []).append(target)
        ids = {target.rollout for of_device in targets.values() for target in of_device}
        rollouts = {rollout.id: rollout for rollout in self._work.rollouts.find({"id": ids})} if ids else {}
        changed: dict[tuple[str, str, str, int], Target] = {}
        for device, reported, at_ms, is_newer in self._reports:
            for position, target in enumerate(targets.get(device, [])):
                rollout = rollouts.get(target.rollout)
                if rollout is None or (target.terminal and not is_newer):
                    continue
                after = observe(target, rollout.model, rollout.digest, reported, at_ms)
                if after is not target and (is_newer or after.terminal):
                    targets[device][position] = after
                    changed[after.rollout, after.device, after.kind.value, after.attempt] = after
        self._work.targets.save(list(changed.values()))
        self._effects.rollouts |= {target.rollout for target in changed.values()}


def _key(row: LatencyMinute) -> tuple[str, str, str, str, int]:
    return row.device, row.model, row.digest, row.stage, row.minute_ms


def _sum(one: LatencyMinute, other: LatencyMinute) -> LatencyMinute:
    sketch = LatencySketch.from_data(one.sketch)
    sketch.merge(LatencySketch.from_data(other.sketch))
    return msgspec.structs.replace(
        other, sketch=sketch.to_data(), requests=one.requests + other.requests, errors=one.errors + other.errors
    )
