"""What every driver of agent/fleet_link/link.py must do, seen through the device's session: subclass LinkSuite and
provide ``rig``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from agent.checked_file import CheckedFile
from agent.clock import SystemClock
from agent.disk import RealDisk
from agent.fleet_link.device_session import DeviceSession, Handlers
from agent.fleet_link.done_commands import DoneCommands
from agent.fleet_link.link import Account, Link
from agent.fleet_link.numbers import Counter
from agent.fleet_link.outbox import Outbox
from edge_contracts import messages, topics
from edge_contracts.capabilities import Capabilities
from edge_contracts.deployment import DeploymentState
from edge_contracts.messages import Birth, Command, Desired, Event, Reported, ReportedModel, Status, Telemetry

DEADLINE_S = 20.0
ACCOUNT = Account("lyon", "cam-1", "a-long-random-password")
FIELD_PAYLOADS = {
    "non-utf8": b"\xff\xfe\x00garbage", "bom": b"\xef\xbb\xbf{}", "lone surrogate": b'{"id": "\\ud800"}',
    "nul": b'{"id": "a\x00b"}', "empty": b"", "html": b"<html>", "number": b"17", "deep": b"[" * 5000,
}  # fmt: skip


class Rig(Protocol):
    """A broker with one device account and the server's own client."""

    def link(self) -> Link:
        """A link of ACCOUNT, not started."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """As the server."""

    def received(self, topic: str) -> list[bytes]:
        """What the server got on that topic, oldest first."""

    def break_connection(self, link: Link) -> None:
        """The device's connection dies without a goodbye."""

    def crash(self) -> None:
        """The broker dies; it comes back by itself, or at ``recover``."""

    def recover(self, link: Link) -> None:
        """The broker is back."""


class Device:
    """A device with a folder; ``session`` is what the agent holds."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        disk, self.link = RealDisk(), rig.link()
        self.desired: list[Desired] = []
        self.commands: list[Command] = []
        self.version = 1
        outbox = Outbox(folder / "outbox", disk, 50)
        sessions = Counter(CheckedFile(folder / "session", disk), int)
        events = Counter(CheckedFile(folder / "events", disk), int)
        done = DoneCommands(CheckedFile(folder / "commands", disk))
        self.session = DeviceSession(self.link, ACCOUNT, outbox, sessions, events, done, SystemClock())
        self.session.load()

    def start(self) -> None:
        self.session.start(
            Handlers(birth=self._birth, reported=self._reported, desired=self.desired.append, command=self._command)
        )

    def _birth(self, number: int) -> Birth:
        return Birth(session=number, agent_version="0", capabilities=Capabilities(), at_ms=0)

    def _reported(self) -> Reported:
        return Reported(version=self.version, session=0, models={})

    def _command(self, command: Command) -> str:
        if command.kind == "unknown":
            raise ValueError("no such kind")
        self.commands.append(command)
        return "done"


def eventually(condition: Callable[[], object], what: str = "") -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline_s, what or "it did not happen in time"
        pause.wait(0.01)


def up(kind: str) -> str:
    return topics.up(ACCOUNT.site, ACCOUNT.device, kind)


def a_command(command_id: str, kind: str = "refresh", expires_in_ms: int = 60_000) -> bytes:
    return messages.encode(Command(id=command_id, kind=kind, expires_at_ms=SystemClock().now_ms() + expires_in_ms))


def an_end(version: int) -> Reported:
    model = ReportedModel(deployment=f"d{version}", state=DeploymentState.COMMITTED)
    return Reported(version=version, session=0, models={"digits": model})


class LinkSuite:
    broker_keeps_what_it_acknowledged = True
    """Also when it is killed. Where not, the newest truth is there all the same: it is retained and comes again."""

    @pytest.fixture
    def device(self, rig: Rig, tmp_path: Path) -> Device:
        return Device(rig, tmp_path / "device")

    def test_a_connection_announces_the_device(self, rig: Rig, device: Device) -> None:
        device.start()
        eventually(lambda: rig.received(up("reported")))
        birth = messages.decode(rig.received(up("birth"))[-1], Birth)
        status = messages.decode(rig.received(up("status"))[-1], Status)
        reported = messages.decode(rig.received(up("reported"))[-1], Reported)
        assert status == Status(online=True, session=birth.session)
        assert reported.session == birth.session == device.session.session
        device.session.stop()

    def test_a_goodbye_says_offline(self, rig: Rig, device: Device) -> None:
        device.start()
        eventually(lambda: device.session.connected and rig.received(up("reported")))
        device.session.stop()
        eventually(lambda: not messages.decode(rig.received(up("status"))[-1], Status).online)

    def test_a_dead_connection_leaves_a_will_and_the_next_has_a_new_number(self, rig: Rig, device: Device) -> None:
        device.start()
        eventually(lambda: rig.received(up("reported")))
        first = device.session.session
        rig.break_connection(device.link)
        rig.recover(device.link)
        eventually(lambda: Status(online=False, session=first) in self._statuses(rig))
        eventually(lambda: any(status.online and status.session > first for status in self._statuses(rig)))
        device.session.stop()

    def test_numbers_grow_over_restarts(self, rig: Rig, tmp_path: Path) -> None:
        numbers: list[int] = []
        for _ in range(3):
            device = Device(rig, tmp_path / "same")
            device.start()
            eventually(lambda device=device: device.session.connected)
            numbers.append(device.session.session)
            device.session.stop()
        assert numbers == sorted(set(numbers))

    def test_a_wish_arrives_also_when_it_was_there_before(self, rig: Rig, device: Device) -> None:
        topic = topics.desired(ACCOUNT.site, ACCOUNT.device)
        rig.publish(topic, messages.encode(Desired(version=1, models={})), retain=True)
        device.start()
        eventually(lambda: device.desired)
        rig.publish(topic, messages.encode(Desired(version=2, models={})), retain=True)
        eventually(lambda: device.desired[-1].version == 2)
        device.session.stop()

    def test_another_devices_wish_does_not_arrive(self, rig: Rig, device: Device) -> None:
        device.start()
        eventually(lambda: device.session.connected)
        rig.publish(topics.desired(ACCOUNT.site, "cam-2"), messages.encode(Desired(version=9, models={})))
        rig.publish(topics.desired(ACCOUNT.site, ACCOUNT.device), messages.encode(Desired(version=1, models={})))
        eventually(lambda: device.desired)
        assert [desired.version for desired in device.desired] == [1]
        device.session.stop()

    @pytest.mark.parametrize("payload", FIELD_PAYLOADS.values(), ids=FIELD_PAYLOADS.keys())
    def test_garbage_is_dropped_and_counted_and_the_next_message_works(
        self, rig: Rig, device: Device, payload: bytes
    ) -> None:
        device.start()
        eventually(lambda: device.session.connected)
        rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, "c1"), payload)
        if payload:  # an empty retained payload only clears what is kept
            rig.publish(topics.desired(ACCOUNT.site, ACCOUNT.device), payload)
        rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, "c2"), a_command("c2"))
        eventually(lambda: device.commands)
        assert device.session.take_dropped() == (2 if payload else 1)
        device.session.stop()

    def test_a_command_is_done_once_however_often_it_comes(self, rig: Rig, device: Device, tmp_path: Path) -> None:
        device.start()
        eventually(lambda: device.session.connected)
        for command_id in ("c1", "c1", "c2", "c1"):
            rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, command_id), a_command(command_id))
        eventually(lambda: len(device.commands) >= 2)
        device.session.stop()
        again = Device(rig, tmp_path / "device")
        again.start()
        eventually(lambda: again.session.connected)
        for command_id in ("c1", "c3"):
            rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, command_id), a_command(command_id))
        eventually(lambda: again.commands)
        assert [command.id for command in [*device.commands, *again.commands]] == ["c1", "c2", "c3"]
        again.session.stop()

    def test_expired_retained_and_mixed_up_commands_are_not_done(self, rig: Rig, device: Device) -> None:
        topic = topics.command(ACCOUNT.site, ACCOUNT.device, "kept")
        rig.publish(topic, a_command("kept"), retain=True)
        rig.publish(up("event"), b"after it")  # sent later on the same connection: when it is back, that one is kept
        eventually(lambda: rig.received(up("event")))
        device.start()
        eventually(lambda: device.session.connected)
        rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, "old"), a_command("old", expires_in_ms=-1000))
        rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, "x1"), a_command("other"))
        rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, "good"), a_command("good"))
        eventually(lambda: device.commands)
        assert [command.id for command in device.commands] == ["good"]
        device.session.stop()

    def test_the_end_of_a_command_is_told(self, rig: Rig, device: Device) -> None:
        device.start()
        eventually(lambda: device.session.connected)
        rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, "c1"), a_command("c1"))
        rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, "c2"), a_command("c2", kind="unknown"))
        eventually(lambda: len(rig.received(up("event"))) >= 2)
        events = [messages.decode(payload, Event) for payload in rig.received(up("event"))]
        assert [(event.kind, event.facts["command"]) for event in events] == [
            ("command.done", "c1"), ("command.refused", "c2"),
        ]  # fmt: skip
        assert len({event.id for event in events}) == 2
        device.session.stop()

    def test_ends_told_while_the_broker_was_away_all_arrive(self, rig: Rig, device: Device) -> None:
        device.start()
        eventually(lambda: rig.received(up("reported")))
        rig.crash()
        eventually(lambda: not device.session.connected)
        for version in (2, 3, 4, 5):
            device.version = version
            device.session.report(an_end(version), final=version in (3, 4))
        rig.recover(device.link)
        # 2 is no end and may be left out; 5 is retained: a new subscription may get it before what was queued.
        wanted = {3, 4, 5} if self.broker_keeps_what_it_acknowledged else {5}
        eventually(lambda: wanted <= set(self._versions(rig)))
        device.session.stop()

    def test_ends_survive_a_restart_of_the_agent(self, rig: Rig, tmp_path: Path) -> None:
        device = Device(rig, tmp_path / "device")
        device.session.report(an_end(7), final=True)
        device.session.event("disk.full", "the disk is full")
        again = Device(rig, tmp_path / "device")
        again.version = 8
        again.start()
        eventually(lambda: self._versions(rig)[-1:] == [8] and rig.received(up("event")))
        assert 7 in self._versions(rig)
        again.session.stop()
        third = Device(rig, tmp_path / "device")
        third.version = 9
        third.start()
        eventually(lambda: self._versions(rig)[-1:] == [9])
        assert self._versions(rig).count(7) == 1
        third.session.stop()

    def test_telemetry_of_an_outage_comes_as_one_message(self, rig: Rig, device: Device) -> None:
        for minute in range(5):
            device.session.telemetry(Telemetry(session=0, from_ms=minute, to_ms=minute + 1, rss_mb=minute))
        device.start()
        eventually(lambda: rig.received(up("telemetry")))
        told = messages.decode(rig.received(up("telemetry"))[0], Telemetry)
        assert (told.from_ms, told.to_ms, told.rss_mb) == (0, 5, 4)
        assert told.session == device.session.session
        device.session.stop()

    def test_secrets_are_in_no_message(self, rig: Rig, device: Device) -> None:
        device.start()
        eventually(lambda: rig.received(up("reported")))
        for kind in topics.UP_KINDS:
            assert all(ACCOUNT.password.encode() not in payload for payload in rig.received(up(kind)))
        device.session.stop()

    def _statuses(self, rig: Rig) -> list[Status]:
        return [messages.decode(payload, Status) for payload in rig.received(up("status"))]

    def _versions(self, rig: Rig) -> list[int]:
        return [messages.decode(payload, Reported).version for payload in rig.received(up("reported"))]
