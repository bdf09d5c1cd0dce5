"""The device's conversation with its fleet, over any Link: announce, report, hear wishes and commands.

Every connection re-announces everything: nothing depends on the broker's memory. What cannot be read is counted and
dropped; a handler is called with typed messages only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from agent.clock import Clock
from agent.fleet_link.done_commands import DoneCommands
from agent.fleet_link.link import Account, Link, Will
from agent.fleet_link.numbers import Counter
from agent.fleet_link.outbox import Entry, Outbox
from edge_contracts import messages, topics
from edge_contracts.errors import ContractError, MalformedMessage
from edge_contracts.messages import Birth, Command, Desired, Event, Reported, Status, Telemetry

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Handlers:
    """What the rest of the agent does for the link. All are called on the link's thread and return soon.

    ``command`` returns what was done, in words; it raises ValueError for a kind or argument it does not know.
    """

    birth: Callable[[int], Birth]
    reported: Callable[[], Reported]
    desired: Callable[[Desired], None]
    command: Callable[[Command], str]


class DeviceSession:
    """One per daemon. Thread-safe."""

    def __init__(
        self, link: Link, account: Account, outbox: Outbox, sessions: Counter, events: Counter, done: DoneCommands,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._link = link
        self._account = account
        self._outbox = outbox
        self._sessions = sessions
        self._event_numbers = events
        self._done = done
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: set[int] = set()
        self._handlers: Handlers | None = None
        self._used = True
        self._dropped = 0

    @property
    def session(self) -> int:
        """Number of the present (or last) connection."""
        return self._sessions.value

    @property
    def connected(self) -> bool:
        """As the link says."""
        return self._link.connected

    @property
    def link_detail(self) -> str:
        """Why there is no connection, in words; empty while there is one, or before the first attempt has ended."""
        return self._link.detail

    def load(self) -> None:
        """What the server had not heard when the last run ended; before anything is reported."""
        self._outbox.load()

    def start(self, handlers: Handlers) -> None:
        """Begin to connect; returns at once."""
        self._handlers = handlers
        self._link.start(self)

    def stop(self) -> None:
        """Say good-bye, if there is a connection."""
        if self._link.connected:
            self._announce("status", Status(online=False, session=self.session))
        self._link.stop()

    def report(self, report: Reported, *, final: bool) -> None:
        """The truth has changed; see Outbox.put_report."""
        with self._lock:
            self._outbox.put_report(report, final=final)
        self._flush()

    def event(
        self, kind: str, text: str, *, model: str | None = None, deployment: str | None = None,
        **facts: str | int | float | bool | None,
    ) -> None:  # fmt: skip
        """Tell the operator."""
        with self._lock:
            try:
                number = self._event_numbers.advance()
            except OSError:
                number = self._clock.now_ms()  # unique enough while the disk refuses
            event = Event(
                id=f"{self._account.device}-{number}", at_ms=self._clock.now_ms(), kind=kind, text=text, model=model,
                deployment=deployment, facts=facts,
            )  # fmt: skip
            self._outbox.put_event(event)
        self._flush()

    def telemetry(self, telemetry: Telemetry) -> None:
        """Load and latency since the last time."""
        with self._lock:
            self._outbox.put_telemetry(telemetry)
        self._flush()

    def take_dropped(self) -> int:
        """Messages that could not be read, or had to give way, since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped + self._outbox.dropped, 0
            self._outbox.dropped = 0
        return dropped

    def count_dropped(self) -> None:
        """One more."""
        self._dropped += 1

    # --- Listener ---------------------------------------------------------------------------------------------------

    def next_will(self) -> Will:
        if self._used:
            try:
                self._sessions.advance()
                self._used = False
            except OSError as error:
                _log.warning("the session number cannot be written: %s", error)
        return Will(self._topic("status"), messages.encode(Status(online=False, session=self.session)))

    def on_connected(self) -> None:
        assert self._handlers is not None
        self._used = True
        with self._lock:
            self._sent.clear()
        self.announce()

    def announce(self) -> None:
        """Everything about this device, anew."""
        if self._handlers is None:
            return
        self._announce("birth", self._handlers.birth(self.session))
        self._announce("status", Status(online=True, session=self.session))
        with self._lock:
            self._outbox.put_report(self._handlers.reported(), final=False)
        self._flush()

    def on_disconnected(self) -> None:
        with self._lock:
            self._sent.clear()

    def on_takeover(self, text: str) -> None:
        self.event("link.duplicate_id", text)

    def on_message(self, topic: str, payload: bytes, retained: bool) -> None:
        try:
            parsed = topics.parse(topic)
            if (parsed.site, parsed.device, parsed.direction) != (self._account.site, self._account.device, "down"):
                raise MalformedMessage("topic", f"{topic[:200]!r} is not this device's")
            if parsed.kind == "desired":
                self._on_desired(messages.decode(payload, Desired))
            else:
                self._on_command(messages.decode(payload, Command), parsed.command_id, retained)
        except ContractError as error:
            self.count_dropped()
            _log.warning("a message is dropped: %.300s", error)

    # ----------------------------------------------------------------------------------------------------------------

    def _on_desired(self, desired: Desired) -> None:
        assert self._handlers is not None
        self._handlers.desired(desired)

    def _on_command(self, command: Command, topic_id: str | None, retained: bool) -> None:
        assert self._handlers is not None
        if retained:
            raise MalformedMessage("command", f"{command.id[:64]!r} is retained: it may be older than anything")
        if command.id != topic_id:
            raise MalformedMessage("command", f"id {command.id[:64]!r} does not agree with its topic ({topic_id})")
        now_ms = self._clock.now_ms()
        if command.expires_at_ms < now_ms:
            raise MalformedMessage("command", f"{command.id} has expired")
        try:
            if not self._done.begin(command.id, command.expires_at_ms, now_ms):
                return
        except OSError as error:
            _log.error("command %s is not done since that cannot be written down: %s", command.id, error)
            return
        try:
            text, kind = self._handlers.command(command), "command.done"
        except ValueError as error:
            text, kind = str(error), "command.refused"
        self.event(kind, f"{command.kind}: {text}", model=command.args.get("model"), command=command.id)

    def _announce(self, kind: str, message: Birth | Status) -> None:
        self._link.publish(self._topic(kind), messages.encode(message), retain=True, confirmed=_nothing)

    def _flush(self) -> None:
        """Send what has not been sent on this connection. The lock is not held while the link is called."""
        if not self._link.connected:
            return
        with self._lock:
            entries = [entry for entry in self._outbox.waiting() if entry.number not in self._sent]
            self._sent.update(entry.number for entry in entries)
        for entry in entries:
            if not self._send(entry):
                with self._lock:
                    self._sent.discard(entry.number)

    def _send(self, entry: Entry) -> bool:
        kind, payload = self._encoded(entry)

        def confirmed() -> None:
            with self._lock:
                self._outbox.confirm(entry.number)
                self._sent.discard(entry.number)

        if payload is None:
            self.count_dropped()
            confirmed()
            return True
        return self._link.publish(self._topic(kind), payload, retain=kind == "reported", confirmed=confirmed)

    def _encoded(self, entry: Entry) -> tuple[str, bytes | None]:
        message = entry.message
        kind = type(message).__name__.lower()
        if not isinstance(message, Event):
            message = msgspec.structs.replace(message, session=self.session)
        try:
            return kind, messages.encode(message)
        except MalformedMessage:
            if isinstance(message, Reported):
                return kind, messages.encode(_without_candidates(message))
            return kind, None

    def _topic(self, kind: str) -> str:
        return topics.up(self._account.site, self._account.device, kind)


def _without_candidates(report: Reported) -> Reported:
    """The choice and why, without every candidate that lost: for a report that is too large for a broker."""
    models = {
        name: msgspec.structs.replace(
            model, evidence=model.evidence and msgspec.structs.replace(model.evidence, candidates=[])
        )
        for name, model in report.models.items()
    }
    return msgspec.structs.replace(report, models=models)


def _nothing() -> None:
    """A confirmation that nobody waits for."""
