"""Runs one deployment at a time through the machine: journal, then act, then journal the outcome.

One thread runs it (``run`` in the daemon, ``settle`` in a command); it alone changes the state. Others hand it messages
and read ``state``, which is immutable.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from agent.clock import Clock
from agent.config import AgentConfig
from agent.errors import AgentError, ServingError, UpdateError, UpdateInterrupted
from agent.update import transition
from agent.update.effects import Serving
from agent.update.inbox import Cancel, Desire, Inbox, Message, WishFor, Worse
from agent.update.journal import Journal
from agent.update.machine import MAX_POWER_RETURNS, SUSPECT, Event
from agent.update.records import LOCAL, Deployment, DeviceState, HistoryEntry, Installed, Wish
from agent.update.slots import Slots
from agent.update.steps import Job, Outcome, Steps, failure, proving
from agent.update.trial import Trial
from agent.update.wishes import wishes_of
from edge_contracts.deployment import DeploymentState
from edge_contracts.errors import ContractError
from edge_contracts.messages import Policy

_log = logging.getLogger(__name__)
S = DeploymentState
START_TRIES = 3


@dataclass(frozen=True)
class Rooms:
    """What the executor works with."""

    journal: Journal
    slots: Slots
    steps: Steps
    trial: Trial
    serving: Serving
    config: AgentConfig
    clock: Clock
    inbox: Inbox
    new_id: Callable[[], str]


class Executor:
    """See the module. ``on_change`` is called after every change, ``on_progress`` with (deployment, text)."""

    def __init__(
        self, rooms: Rooms, on_change: Callable[[DeviceState], None], on_progress: Callable[[str, str], None]
    ) -> None:
        self._rooms = rooms
        self._on_change = on_change
        self._on_progress = on_progress
        self._state = DeviceState()
        self._stop = threading.Event()
        self._is_unwritten = False

    @property
    def state(self) -> DeviceState:
        """The truth as of the last change."""
        return self._state

    def history(self) -> list[HistoryEntry]:
        """Deployments that have ended, oldest first."""
        return self._rooms.journal.history()

    @property
    def is_journal_damaged(self) -> bool:
        """Before ``open``: the newest state is torn, an older one or none will be used."""
        return self._rooms.journal.is_damaged

    def begins_with(self) -> list[str]:
        """Before ``open``: the models that serve from the start. Only reads."""
        return [name for name, model in self._rooms.journal.load().models.items() if model.active is not None]

    def open(self) -> DeviceState:
        """Read the journal; a deployment that was in flight hears that the power returned. Raises UpdateError."""
        self._state = self._rooms.journal.load()
        # After a clean stop nothing speaks against a deployment in flight: it just goes on.
        was_cut = not self._state.clean
        for name, model in self._state.models.items() if was_cut else ():
            if model.deployment is not None and model.deployment.in_flight:
                self._move(name, _cut_outcome(model.deployment, "the power was cut"))
        # The server believes only what has a higher version. Each start begins at the time of day, so that versions
        # told while the disk refused to keep them, or lost with a journal, are not told again; a wrong clock adds one.
        version = max(self._state.version + 1, self._rooms.clock.now_ms())
        self._save(transition.replace(self._state, clean=False, version=version))
        return self._state

    def submit(self, message: Message) -> None:
        """From any thread: a wish, or news about what serves."""
        self._rooms.inbox.put(message)

    def stop(self) -> None:
        """From any thread: leave the deployment in flight as it is, to go on at the next start."""
        self._stop.set()
        self._rooms.inbox.poke()

    def close(self) -> None:
        """After ``run`` or ``settle`` has returned: note that nothing was cut off."""
        self._save(transition.replace(self._state, clean=True))

    def run(self) -> None:
        """Work until stop()."""
        self.start_serving()
        while not self._stop.is_set():
            self.settle()
            if not self._stop.is_set():
                self._rooms.inbox.wake.wait()

    def settle(self) -> None:
        """Work until nothing is left to do, or stop()."""
        self._read_inbox()
        while not self._stop.is_set():
            name = self._next_model()
            if name is None:
                return
            self._deploy(name)

    def start_serving(self) -> None:
        """Serve what is active; what cannot start after a few tries goes back to the last good."""
        for name, model in list(self._state.models.items()):
            if model.active is not None and not self._stop.is_set():
                self._start_model(name)

    def _start_model(self, name: str) -> None:
        placed = self._rooms.trial.placed(name, self._state.model(name).active)
        reason = "its files are gone or damaged"
        for attempt in range(START_TRIES if placed is not None else 0):
            assert placed is not None
            try:
                self._rooms.serving.switch_to(placed)
            except ServingError as error:
                reason = str(error)
                _log.warning("%s", reason)
                self._rooms.clock.wait(self._stop, 2.0**attempt)
            else:
                if self._state.model(name).fault is not None:
                    self._put_model(name, fault=None)
                return
        if not self._stop.is_set():
            self._worse(Worse(name, f"does not start: {reason}", go_back=True))

    # --- one deployment -------------------------------------------------------------------------------------------

    def _next_model(self) -> str | None:
        """The model whose deployment is furthest; those that wait come in the order of their wishes."""
        open_ones = [
            (model.deployment.state is S.QUEUED, model.deployment.queued_ms, name)
            for name, model in self._state.models.items()
            if model.deployment is not None and model.deployment.in_flight
        ]
        return min(open_ones)[2] if open_ones else None

    def _deploy(self, name: str) -> None:
        deployment = self._state.model(name).deployment
        while deployment is not None and deployment.in_flight and not self._stop.is_set():
            outcome = self._step(name, deployment)
            if outcome is not None:
                self._move(name, outcome)
            self._read_inbox()
            deployment = self._state.model(name).deployment
        self._rooms.steps.forget()
        self._collect()

    def _step(self, name: str, deployment: Deployment) -> Outcome | None:
        """Do the work of the present state. None: interrupted; the inbox or the next start says how it goes on."""
        deadline_s = getattr(self._rooms.config.update, f"{deployment.state.value}_deadline_s")
        ends = self._rooms.clock.monotonic() + deadline_s

        def interrupt() -> bool:
            return self._is_wanted_elsewhere(name) or self._rooms.clock.monotonic() > ends

        def progress(text: str) -> None:
            self._on_progress(deployment.wish.deployment, text)

        progress(progress_word(deployment))
        job = Job(name, deployment.wish, self._state.model(name), progress, interrupt)
        try:
            return self._work(job, deployment)
        except UpdateInterrupted as interruption:
            if self._is_wanted_elsewhere(name):
                return None
            if self._rooms.clock.monotonic() > ends:
                return Outcome(Event.TIMED_OUT, f"{deployment.state.value} took over {deadline_s:g} s", "timed_out")
            return _cut_outcome(deployment, str(interruption))
        except UpdateError as error:
            return failure(error)
        except ContractError as error:
            return Outcome(Event.FAILED, str(error), "digest")
        except AgentError as error:
            return Outcome(Event.FAILED, str(error), "internal")
        except OSError as error:
            return Outcome(Event.FAILED, f"{error.filename or 'disk'}: {error.strerror or error}", "internal")
        except Exception as error:  # noqa: BLE001 - a step runs plug-ins: a bug ends the deployment, not the machine
            _log.exception("a step failed")
            return Outcome(Event.FAILED, f"{type(error).__name__}: {error}", "internal")

    def _work(self, job: Job, deployment: Deployment) -> Outcome:
        if deployment.wish.digest is None:
            self._rooms.serving.remove(job.name)
            return Outcome(Event.REMOVED, deployment.wish.why or "removed: no bundle is wished for")
        if deployment.state is S.TRIAL:
            return self._try(job, deployment)
        steps = self._rooms.steps
        work = {
            S.QUEUED: steps.queued, S.DOWNLOADING: steps.downloading, S.VERIFYING: steps.verifying,
            S.INSTALLING: steps.installing, S.PROBING: steps.probing,
        }[deployment.state]  # fmt: skip
        return work(job)

    def _try(self, job: Job, deployment: Deployment) -> Outcome:
        if not deployment.restores:
            assert deployment.wish.digest is not None
            folder = self._rooms.slots.folder(job.name, deployment.wish.digest)
            terms = proving(self._rooms.config, deployment.wish, folder.bundle)
            return self._rooms.trial.run(job, deployment, terms, self._rooms.steps.is_signed(job))
        return self._rooms.trial.run(job, deployment, None, False)

    def _is_wanted_elsewhere(self, name: str) -> bool:
        return self._stop.is_set() or self._rooms.inbox.stops(name, self._state)

    def _move(self, name: str, outcome: Outcome) -> None:
        """Journal the outcome. When the disk refuses, nothing that the journal does not know of stays in force."""
        before = self._state
        moved = transition.moved(before, name, outcome, self._rooms.clock.now_ms())
        deployment = moved.model(name).deployment
        assert deployment is not None
        try:
            self._write(moved, name)
        except OSError as error:
            self._disk_refused(before, name, outcome, error)
            return
        _log.info("%s", move_text(name, deployment))

    def _write(self, state: DeviceState, name: str) -> None:
        before, deployment = self._state.model(name), state.model(name).deployment
        try:
            if deployment is not None and not deployment.in_flight:
                self._rooms.journal.append_history(transition.history_entry(name, before, deployment))
            self._rooms.journal.save(state)
        except OSError:
            self._rooms.slots.drop_downloads()
            self._rooms.journal.save(state)
        self._is_unwritten = False
        self._state = state
        self._on_change(state)

    def _disk_refused(self, before: DeviceState, name: str, outcome: Outcome, error: OSError) -> None:
        reason = f"the state cannot be written ({error.strerror}): free some space and deploy again"
        event = Event.FAILED
        if outcome.active is not None and outcome.event is Event.PROVEN:
            old = self._rooms.trial.placed(name, before.model(name).active)
            try:
                if old is None:
                    self._rooms.serving.remove(name)
                else:
                    self._rooms.serving.switch_to(old)
                event = Event.REVERTED
            except ServingError:
                event = Event.REVERT_FAILED
        _log.error("%s: %s", name, reason)
        # In memory and in the report only: the journal still holds the state before, and is gone on from at the next
        # start.
        self._is_unwritten = True
        self._state = transition.moved(
            before, name, Outcome(event, reason, "no_space"), self._rooms.clock.now_ms()
        )  # fmt: skip
        self._on_change(self._state)

    # --- messages ---------------------------------------------------------------------------------------------------

    def _read_inbox(self) -> None:
        for message in self._rooms.inbox.take():
            self._answer(message)

    def _answer(self, message: Message) -> None:
        if isinstance(message, WishFor):
            self._accept(message.name, message.wish)
        elif isinstance(message, Desire):
            for name, wish in wishes_of(message.desired, self._state):
                self._accept(name, wish)
            if (self._state.desired_version or 0) < message.desired.version:
                changed = transition.replace(self._state, desired_version=message.desired.version)
                self._save(transition.replace(changed, version=changed.version + 1))
        elif isinstance(message, Cancel):
            for name, model in self._state.models.items():
                deployment = model.deployment
                if deployment is not None and deployment.in_flight and deployment.wish.deployment == message.deployment:
                    self._move(name, Outcome(Event.CANCELED, "canceled"))
        else:
            self._worse(message)

    def _accept(self, name: str, wish: Wish) -> None:
        present = self._state.model(name).deployment
        if present is not None and present.wish.deployment == wish.deployment:
            return
        if present is not None and present.in_flight:
            self._move(name, Outcome(Event.SUPERSEDED, f"a newer wish came: {wish.version or 'no bundle'}"))
        self._save(transition.queued(self._state, name, wish, self._rooms.clock.now_ms()))

    def _worse(self, news: Worse) -> None:
        model = self._state.model(news.name)
        if model.active is None:
            return
        if news.go_back:
            self._distrust(news.name, model.active, news.reason)
        self._put_model(
            news.name,
            regressed=f"{model.active.deployment}: {news.reason}",
            fault=news.reason if news.go_back else model.fault,
        )
        last_good = model.last_good
        if news.go_back and last_good is not None:
            wish = Wish(
                deployment=f"auto-{self._rooms.new_id()}", version=last_good.version, digest=last_good.digest,
                policy=Policy(allow_unsigned=not last_good.signed), origin=LOCAL,
                why=f"{model.active.version}: {news.reason}", automatic=True,
            )  # fmt: skip
            self._accept(news.name, wish)

    def _distrust(self, name: str, active: Installed, reason: str) -> None:
        """The same bundle, sent again, is to be served another way. Without its files there is nothing to blame."""
        placed = self._rooms.trial.placed(name, active)
        if placed is None:
            return
        try:
            self._rooms.trial.distrust(placed, reason)
        except OSError as error:
            _log.warning("%s: what failed could not be noted: %s", name, error)

    def _put_model(self, name: str, *, fault: str | None, regressed: str | None = None) -> None:
        model = transition.replace(self._state.model(name), fault=fault, regressed=regressed)
        self._save(transition.with_model(self._state, name, model))

    # --- the journal ------------------------------------------------------------------------------------------------

    def _save(self, state: DeviceState) -> None:
        """Write a change that nothing waits for; a disk that refuses is told and does not stop the agent."""
        self._state = state
        try:
            self._rooms.journal.save(state)
            self._is_unwritten = False
        except OSError as error:
            _log.error("the state cannot be written: %s", error)
            self._is_unwritten = True
        self._on_change(state)

    def _collect(self) -> None:
        if self._is_unwritten:
            return  # the journal still speaks of a deployment in flight and will want its files
        try:
            self._rooms.slots.collect(self._state)
        except OSError as error:
            _log.warning("old bundles could not be removed: %s", error)


def _cut_outcome(deployment: Deployment, reason: str) -> Outcome:
    """The work was cut off, and nobody here meant that: once more, unless the deployment itself seems to do it."""
    times = deployment.power_returns + 1
    if deployment.state in SUSPECT and times > MAX_POWER_RETURNS:
        return Outcome(Event.POWER_LOST_AGAIN, f"{reason} {times} times while {deployment.state.value}", "crash")
    return Outcome(Event.POWER_RETURNED)


def move_text(name: str, deployment: Deployment) -> str:
    """A line of the log: where the deployment has come to. Pure."""
    wish, state = deployment.wish, deployment.state
    if wish.digest is None and state is S.COMMITTED:
        return f"{name}: removed" + (f" ({wish.why})" if wish.why else "")
    version = f" {wish.version}" if wish.version else ""
    return f"{name}{version}: {state.value}" + (f" ({deployment.reason})" if deployment.reason else "")


def progress_word(deployment: Deployment) -> str:
    """What is being done, for who waits for it: a file on this machine is not downloaded. Pure."""
    is_reading = deployment.state is S.DOWNLOADING and deployment.wish.source is not None
    return "reading" if is_reading else deployment.state.value
