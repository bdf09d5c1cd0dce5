"""What the server has yet to hear. Reports that something ended are never dropped and survive a restart, as do events,
of which the oldest give way; a report in between is replaced by the next; telemetry is merged.

    DATA/state/outbox/<number>.report|event       one checked file each, in order

Not thread-safe; nothing here calls out.
"""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.checked_file import read_checked, seal
from agent.disk import Disk
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import Event, Reported, StageLatency, Telemetry

_log = logging.getLogger(__name__)
MAX_TELEMETRY = 8
Message = Reported | Event | Telemetry
_KINDS: dict[str, type[Reported] | type[Event]] = {"report": Reported, "event": Event}


@dataclass(frozen=True)
class Entry:
    """A message that waits. ``number``: its place, unique within this process."""

    number: int
    message: Message
    path: Path | None = None


class Outbox:
    """``dropped``: how many messages had to give way so far."""

    def __init__(self, folder: Path, disk: Disk, max_events: int) -> None:
        self._folder = folder
        self._disk = disk
        self._max_events = max_events
        self.dropped = 0
        self._finals: list[Entry] = []
        self._events: list[Entry] = []
        self._telemetry: list[Entry] = []
        self._report: Entry | None = None
        self._numbers = itertools.count(1)

    def load(self) -> None:
        """What was left over from the last run; a torn file is dropped."""
        last = 0
        for path in sorted(self._folder.glob("[0-9]*.*")):
            content, kind = read_checked(path), _KINDS.get(path.suffix[1:])
            try:
                number = int(path.stem)
                if content is None or kind is None:
                    raise ValueError("torn")
                entry = Entry(number, msgspec.json.decode(content, type=kind), path)
            except (ValueError, msgspec.MsgspecError):
                path.unlink(missing_ok=True)
                continue
            (self._finals if kind is Reported else self._events).append(entry)
            last = number
        self._numbers = itertools.count(last + 1)

    def put_report(self, report: Reported, *, final: bool) -> None:
        """The newest truth. ``final``: it tells an end that must be heard."""
        if final:
            self._report = None
            self._finals.append(self._stored(report, "report"))
        else:
            self._report = Entry(next(self._numbers), report)

    def put_event(self, event: Event) -> None:
        """Something worth an operator's eye."""
        while len(self._events) >= self._max_events:
            self._forget(self._events.pop(0))
            self.dropped += 1
        self._events.append(self._stored(event, "event"))

    def put_telemetry(self, telemetry: Telemetry) -> None:
        """Merged with what waits already, where it is about the same bundles."""
        last = self._telemetry[-1] if self._telemetry else None
        if last is not None and isinstance(last.message, Telemetry) and _mergeable(last.message, telemetry):
            self._telemetry[-1] = Entry(next(self._numbers), merged(last.message, telemetry))
            return
        self._telemetry.append(Entry(next(self._numbers), telemetry))
        if len(self._telemetry) > MAX_TELEMETRY:
            self._telemetry.pop(0)
            self.dropped += 1

    def waiting(self) -> list[Entry]:
        """All, in the order in which they are to be sent: the newest truth comes last of the reports."""
        report = [self._report] if self._report is not None else []
        return [*self._events, *self._telemetry, *self._finals, *report]

    def confirm(self, number: int) -> None:
        """The broker has it."""
        for entries in (self._finals, self._events, self._telemetry):
            for entry in entries:
                if entry.number == number:
                    entries.remove(entry)
                    self._forget(entry)
                    return
        if self._report is not None and self._report.number == number:
            self._report = None

    def _stored(self, message: Message, kind: str) -> Entry:
        number = next(self._numbers)
        path = self._folder / f"{number:012d}.{kind}"
        try:
            self._disk.replace(path, seal(msgspec.json.encode(message)))
        except OSError as error:
            # It is still told, if the connection comes back before the next restart: "disk full" is such a message.
            _log.warning("a message for the server is kept in memory only: %s", error)
            return Entry(number, message)
        return Entry(number, message, path)

    def _forget(self, entry: Entry) -> None:
        if entry.path is not None:
            try:
                entry.path.unlink(missing_ok=True)
            except OSError as error:
                _log.warning("%s cannot be removed: %s", entry.path, error)


def merged(old: Telemetry, new: Telemetry) -> Telemetry:
    """One message for both spans of time: sketches add up, states are the newer ones."""
    models = dict(old.models)
    for name, latency in new.models.items():
        before = models.get(name)
        models[name] = latency if before is None else _merged_latency(before, latency)
    return msgspec.structs.replace(new, from_ms=min(old.from_ms, new.from_ms), models=models)


def _mergeable(old: Telemetry, new: Telemetry) -> bool:
    return all(
        name not in old.models or old.models[name].digest == latency.digest for name, latency in new.models.items()
    )


def _merged_latency(old: StageLatency, new: StageLatency) -> StageLatency:
    stages = dict(old.stages)
    for stage, data in new.stages.items():
        if stage in stages:
            sketch = LatencySketch.from_data(stages[stage])
            sketch.merge(LatencySketch.from_data(data))
            stages[stage] = sketch.to_data()
        else:
            stages[stage] = data
    return msgspec.structs.replace(
        new, stages=stages, requests=old.requests + new.requests, errors=old.errors + new.errors
    )  # fmt: skip
