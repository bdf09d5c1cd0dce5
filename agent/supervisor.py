"""The daemon: keeps server, link, update machine and telemetry going, and takes them down in order.

Threads: this one (telemetry, and waiting for the end), the executor's, the link's, the control socket's, the server's
event reader. All of them wait on events; nothing polls.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agent.clock import Clock
from agent.config import AgentConfig
from agent.control import ControlServer, Progress
from agent.data_lock import data_lock
from agent.device_facts import DeviceFacts
from agent.errors import AgentError, UpdateError
from agent.first_measurement import FirstMeasurement
from agent.fleet_link.device_session import DeviceSession, Handlers
from agent.live_tuning import LiveTuning
from agent.service_notice import notify
from agent.serving.control import EngineEvent
from agent.serving.process import Bind, ServerProcess
from agent.telemetry import Telemeter
from agent.tuning.seams import TuningEvent
from agent.update.executor import Executor
from agent.update.inbox import Desire, Inbox, WishFor
from agent.update.install_once import committed_or_raise, wish_for_file
from agent.update.live_serving import LiveServing
from agent.update.probation import Probation
from agent.update.records import DeviceState
from agent.update.report import final_marks, fleet_document, reported, status_document
from agent.update.wishes import rollback_wish
from agent.watchdog import WatchedWait
from edge_contracts._version import __version__
from edge_contracts.capabilities import Capabilities
from edge_contracts.messages import Birth, Command, Policy

_log = logging.getLogger(__name__)
EXECUTOR_STOP_S = 20.0
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0


@dataclass(frozen=True)
class DaemonParts:
    """What composition hands over. ``session`` None: the device is not enrolled, it serves and takes local installs."""

    config: AgentConfig
    clock: Clock
    facts: DeviceFacts
    affinity: frozenset[int] | None
    executor: Executor
    inbox: Inbox
    server: ServerProcess
    bind: Bind
    serving: LiveServing
    probation: Probation
    telemeter: Telemeter
    session: DeviceSession | None
    tuning: LiveTuning
    start_tuning: Callable[[Callable[[], bool], Callable[[TuningEvent], None]], None]
    new_id: Callable[[], str]
    measuring: FirstMeasurement | None


class Daemon:
    """``assemble`` once, then ``run`` once. The callbacks before ``assemble`` are for the parts it is made of."""

    def __init__(self) -> None:
        self._parts: DaemonParts | None = None
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._listeners: dict[str, Progress] = {}
        self._marks: frozenset[tuple[str, ...]] = frozenset()
        self._port = 0

    def assemble(self, parts: DaemonParts) -> None:
        """Hand over the parts."""
        self._parts = parts

    @property
    def parts(self) -> DaemonParts:
        """What it is made of."""
        assert self._parts is not None
        return self._parts

    def request_stop(self) -> None:
        """From any thread or a signal handler."""
        self._stop.set()

    def run(self, environ: Mapping[str, str], ready: Callable[[int], None]) -> None:
        """Until request_stop(). ``ready`` is told the port. Raises DataFolderLocked, PortInUse, ConfigurationError."""
        parts = self.parts
        with data_lock(parts.config.data_dir):
            if parts.affinity is not None:
                os.sched_setaffinity(0, parts.affinity)  # children and threads made from here on inherit it
            expected = parts.executor.begins_with()
            self._port = parts.server.start(parts.bind, affinity=parts.affinity, expected=expected)
            worker = threading.Thread(target=self._execute, name="executor")
            control = ControlServer(parts.config.data_dir, self._answer)
            try:
                if parts.session is not None:
                    parts.session.load()
                self._open()
                control.start()
                parts.facts()
                worker.start()
                self._start_session()
                parts.start_tuning(self._is_updating_or_measuring, self._on_tuning)
                if parts.measuring is not None:
                    parts.measuring.start()
                ready(self._port)
                notify(environ, "READY=1")
                self._watch(WatchedWait(parts.clock, environ))
            finally:
                notify(environ, "STOPPING=1")
                self._take_down(worker, control)

    def _open(self) -> None:
        executor, session = self.parts.executor, self.parts.session
        if executor.is_journal_damaged:
            text = "the journal was torn: going on from the state before it, or from nothing"
            _log.error(text)
            if session is not None:
                session.event("journal.damaged", text)
        self._marks = final_marks(executor.open())

    # --- callbacks of the parts -------------------------------------------------------------------------------------

    def state(self) -> DeviceState:
        """The update machine's truth."""
        return self.parts.executor.state

    def on_change(self, state: DeviceState) -> None:
        """On the executor's thread, after every change."""
        with self._changed:
            self._changed.notify_all()
        marks = final_marks(state)
        is_final, self._marks = bool(marks - self._marks), marks
        session = self.parts.session
        if session is not None:
            session.report(reported(state), final=is_final)

    def on_progress(self, deployment: str, text: str) -> None:
        """On the executor's thread."""
        _log.info("%s: %s", deployment, text)
        listener = self._listeners.get(deployment)
        if listener is not None:
            listener(text)

    def on_engine_event(self, event: EngineEvent) -> None:
        """On the server's event thread."""
        parts = self.parts
        _log.warning("%s: %s", event.kind, event.text)
        parts.serving.on_event(event)
        parts.tuning.on_event(event)
        parts.probation.on_event(event)
        if parts.session is not None:
            parts.session.event(event.kind, event.text, model=event.model, version=event.version, reason=event.reason)

    def is_working(self) -> bool:
        """Whether an update is in flight or tuning measures: nothing else may disturb that."""
        return self._is_updating() or self.parts.tuning.is_measuring

    def on_measured(self, facts: Capabilities) -> None:
        """On the measuring thread."""
        self.parts.facts.keep_measured(facts)
        bandwidth, arithmetic = facts.memory.bandwidth_gb_s, facts.cpu.gflops_fp32
        _log.info("measured: memory %s GB/s, arithmetic %s GFLOPS fp32", bandwidth, arithmetic)
        if self.parts.session is not None:
            self.parts.session.announce()

    def _is_updating(self) -> bool:
        return any(m.deployment is not None and m.deployment.in_flight for m in self.state().models.values())

    def _is_updating_or_measuring(self) -> bool:
        measuring = self.parts.measuring
        return self._is_updating() or (measuring is not None and measuring.is_running)

    def _on_tuning(self, event: TuningEvent) -> None:
        """On the tuner's thread."""
        _log.info("%s: %s: %s", event.kind, event.model, event.text)
        if self.parts.session is not None:
            self.parts.session.event(
                event.kind, event.text, model=event.model, threads=event.facts.get("threads")
            )  # fmt: skip

    # --- threads ----------------------------------------------------------------------------------------------------

    def _execute(self) -> None:
        """The executor's thread: a bug in it is told, and the rest of the agent lives on while it is tried again."""
        wait_s = FIRST_RETRY_S
        while not self._stop.is_set():
            try:
                self.parts.executor.run()
                return
            except Exception as error:  # noqa: BLE001 - the supervisor's own duty: no bug may end the daemon
                _log.exception("the update machine failed")
                if self.parts.session is not None:
                    self.parts.session.event("agent.internal_error", f"{type(error).__name__}: {error}")
                self.parts.clock.wait(self._stop, wait_s)
                wait_s = min(LONGEST_RETRY_S, wait_s * 2)

    def _watch(self, watched: WatchedWait) -> None:
        """This thread: telemetry until the end, and the service manager's watchdog."""
        parts = self.parts
        parts.telemeter.start()
        is_told = False
        while not watched.wait(self._stop, parts.config.telemetry.interval_s):
            try:
                telemetry = parts.telemeter.read()
                for served in parts.server.snapshot().models:
                    parts.probation.on_served(served)
            except AgentError as error:
                _log.debug("no telemetry: %s", error)
                continue
            except (OSError, msgspec.MsgspecError) as error:
                # A full disk, no descriptor left, or an engine that died in the middle of a message: it serves on.
                _log.log(logging.DEBUG if is_told else logging.WARNING, "no telemetry: %s", error)
                is_told = True
                continue
            is_told = False
            if parts.session is not None:
                parts.session.telemetry(telemetry)

    def _take_down(self, worker: threading.Thread, control: ControlServer) -> None:
        parts = self.parts
        self._stop.set()
        parts.executor.stop()
        with self._changed:
            self._changed.notify_all()
        control.stop()
        if worker.ident is not None:
            worker.join(EXECUTOR_STOP_S)
        if parts.session is not None:
            parts.session.stop()
        parts.tuning.stop()
        if parts.measuring is not None:
            parts.measuring.stop()
        parts.server.stop(parts.config.drain_s)
        if not worker.is_alive():
            parts.executor.close()
        else:
            _log.error("the update machine did not stop in time; it takes up its work at the next start")

    # --- the fleet --------------------------------------------------------------------------------------------------

    def _start_session(self) -> None:
        session = self.parts.session
        if session is None:
            _log.warning("not enrolled: this device serves on its own (mindie enroll --token-file FILE)")
            return
        session.start(
            Handlers(
                birth=self._birth,
                reported=lambda: reported(self.state()),
                desired=lambda desired: self.parts.inbox.put(Desire(desired)),
                command=self._command,
            )
        )

    def _birth(self, number: int) -> Birth:
        return Birth(
            session=number, agent_version=__version__, capabilities=self.parts.facts(), serving_port=self._port,
            at_ms=self.parts.clock.now_ms(),
        )  # fmt: skip

    def _command(self, command: Command) -> str:
        if command.kind == "refresh":
            threading.Thread(target=self._refresh, name="refresh", daemon=True).start()
            return "probing again"
        if command.kind == "rollback":
            try:
                return self._roll_back(command.args.get("model"))
            except UpdateError as error:
                raise ValueError(str(error)) from error
        raise ValueError("this agent does not know that kind of command")

    def _refresh(self) -> None:
        self.parts.facts.refresh()
        if self.parts.session is not None:
            self.parts.session.announce()

    def _roll_back(self, model: str | None) -> str:
        name, wish = rollback_wish(self.state(), model, f"local-{self.parts.new_id()}")
        self.parts.inbox.put(WishFor(name, wish))
        return f"{name} goes back to {wish.version or 'no bundle'}"

    def _fleet(self) -> dict[str, Any]:
        session = self.parts.session
        if session is None:
            return fleet_document(enrolled=False, connected=False)
        return fleet_document(enrolled=True, connected=session.connected, detail=session.link_detail)

    # --- commands on this machine -----------------------------------------------------------------------------------

    def _answer(self, verb: str, arguments: dict[str, Any], progress: Progress) -> Any:
        parts = self.parts
        if verb == "status":
            document = status_document(self.state(), arguments.get("model"), daemon=True)
            return {**document, "fleet": self._fleet()}
        if verb == "facts":
            return parts.tuning.facts()
        if verb == "install":
            policy = Policy(allow_unsigned=bool(arguments.get("allow_unsigned")))
            message = wish_for_file(Path(str(arguments["path"])), policy, f"local-{parts.new_id()}")
            return self._wait_for(message, progress)
        if verb == "rollback":
            name, wish = rollback_wish(self.state(), arguments.get("model"), f"local-{parts.new_id()}")
            return self._wait_for(WishFor(name, wish), progress)
        raise AgentError(f"this daemon (mindie {__version__}) does not know {verb!r}")

    def _wait_for(self, message: WishFor, progress: Progress) -> Any:
        """Hand over the wish and wait for its end. Raises UpdateError when it did not come true."""
        deployment = message.wish.deployment
        self._listeners[deployment] = progress
        try:
            with self._changed:
                self.parts.inbox.put(message)
                self._changed.wait_for(lambda: self._stop.is_set() or self._is_over(message))
        finally:
            self._listeners.pop(deployment, None)
        if message.wish.digest is not None:
            committed_or_raise(self.state(), message.name, deployment)
        return status_document(self.state(), message.name, daemon=True)

    def _is_over(self, message: WishFor) -> bool:
        """Ended, or replaced by another after it had been begun."""
        last = self.state().model(message.name).deployment
        if last is None or last.wish.deployment != message.wish.deployment:
            return self._was_begun(message)
        return not last.in_flight

    def _was_begun(self, message: WishFor) -> bool:
        return any(entry.deployment == message.wish.deployment for entry in self.parts.executor.history())
