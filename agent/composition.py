"""Puts the agent together: the one place that names concrete drivers. Imports are made where they are used, so that a
command loads only what it needs.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.clock import Clock, SystemClock
from agent.config import AgentConfig
from agent.data_lock import data_lock
from agent.device_facts import DeviceFacts, affinity_of
from agent.disk import Disk, RealDisk
from agent.update.effects import Interrupt, NotServing, Selection, Serving
from agent.update.inbox import Inbox
from agent.update.journal import Journal
from agent.update.recent_latency import RecentLatency
from agent.update.records import DeviceState
from agent.update.slots import Slots

if TYPE_CHECKING:
    from agent.fleet_link.device_session import DeviceSession
    from agent.fleet_link.enrol import Enrolled
    from agent.fleet_link.identity import Identity
    from agent.serving.control import ServingOptions
    from agent.serving.process import Bind
    from agent.supervisor import Daemon
    from agent.update.blob_source import BlobSource
    from agent.update.executor import Executor
    from agent.update.install_once import InstalledBundle
    from edge_contracts.bundle import Bundle
    from edge_contracts.enrolment import EnrolmentToken
    from edge_contracts.messages import Policy, StageLatency


@dataclass(frozen=True)
class Ground:
    """What everything stands on."""

    config: AgentConfig
    clock: Clock
    disk: Disk
    facts: DeviceFacts
    affinity: frozenset[int] | None
    slots: Slots
    journal: Journal
    inbox: Inbox


def new_id() -> str:
    """Short and unique: a part of deployment ids."""
    return secrets.token_hex(6)


def make_ground(config: AgentConfig) -> Ground:
    """The real ones. Raises ConfigurationError for CPUs that are not there."""
    disk = RealDisk()
    return Ground(
        config, SystemClock(), disk, DeviceFacts(config.data_dir), affinity_of(config),
        Slots(config.data_dir, disk), Journal(config.data_dir, disk), Inbox(),
    )  # fmt: skip


def serving_options(config: AgentConfig) -> ServingOptions:
    """How the server is to serve. Compiled models are kept in DATA/cache."""
    from agent.serving.control import Batching, ServingOptions

    serving = config.serving
    batching = Batching(max_batch=serving.max_batch, max_delay_ms=serving.max_delay_ms)
    return ServingOptions(
        max_body_bytes=serving.max_body_mb * 1024 * 1024, max_queue=serving.max_queue,
        request_timeout_s=serving.request_timeout_s, batching=batching if serving.batch else None,
        token_file=serving.token_file, tls_cert=serving.tls_cert, tls_key=serving.tls_key,
        cache_dir=str(config.data_dir / "cache"),
    )  # fmt: skip


def bind_of(config: AgentConfig) -> Bind:
    """Where the server listens."""
    from agent.serving.process import Bind

    uds = config.serving.uds
    return Bind(config.host, config.port, None if uds is None else Path(uds).absolute())


def make_executor(
    ground: Ground, serving: Serving, identity: Identity | None, on_change: Callable[[DeviceState], None],
    on_progress: Callable[[str, str], None], recent: RecentLatency | None = None,
) -> Executor:  # fmt: skip
    """The update machine with the real selection. ``recent``: what a live engine measures."""
    from agent.update.download import Downloader
    from agent.update.download import Pacing as DownloadPacing
    from agent.update.executor import Executor, Rooms
    from agent.update.steps import Steps
    from agent.update.trial import Trial
    from agent.update.verification import NoTrust

    config, clock = ground.config, ground.clock
    selection = _selection(ground, recent or RecentLatency(clock.monotonic))

    def pause(seconds: float, interrupt: Interrupt) -> None:
        ground.inbox.nudge.clear()
        if not interrupt():
            clock.wait(ground.inbox.nudge, seconds)

    pacing = DownloadPacing(clock.monotonic, pause, random.Random())
    downloader = Downloader(ground.slots, ground.disk, config.download, pacing)
    steps = Steps(
        ground.slots, ground.disk, downloader, selection, NoTrust(), config, ground.facts,
        _fleet_sources(ground, identity),
    )  # fmt: skip
    trial = Trial(ground.slots, selection, serving, clock.now_ms)
    rooms = Rooms(
        ground.journal, ground.slots, steps, trial, serving, config, clock, ground.inbox, new_id
    )  # fmt: skip
    return Executor(rooms, on_change, on_progress)


def admit_bundle(config: AgentConfig, bundle: Bundle, *, allow_unsigned: bool) -> bool:
    """Whether the bundle is signed. Raises UpdateError "unsigned" when it is not and nobody allows that."""
    from agent.update.records import Wish
    from agent.update.verification import NoTrust, admit

    wish = Wish(deployment="look", version=bundle.spec.version, digest=bundle.digest)
    return admit(bundle.spec.name, wish, NoTrust(), allow_unsigned or config.update.allow_unsigned)


@contextlib.contextmanager
def local_executor(
    config: AgentConfig, on_progress: Callable[[str], None], *, locked: bool = False
) -> Iterator[tuple[Executor, Slots]]:
    """The machine for one command, without a daemon: holds DATA/lock (unless the caller does), reads the journal.

    Raises DataFolderLocked.
    """
    ground = make_ground(config)
    with contextlib.nullcontext() if locked else data_lock(config.data_dir):
        if ground.affinity is not None:
            os.sched_setaffinity(0, ground.affinity)  # the budget is found under it, and trials inherit it
        executor = make_executor(ground, NotServing(), None, lambda _: None, lambda _, text: on_progress(text))
        executor.open()
        try:
            yield executor, ground.slots
        finally:
            executor.close()


def install_bundle(
    config: AgentConfig, archive: Path, policy: Policy, on_progress: Callable[[str], None], *, locked: bool = False
) -> InstalledBundle:
    """Install one file to its end, without a daemon. Raises UpdateError, MalformedBundle, DataFolderLocked, OSError.

    ``locked``: the caller holds DATA/lock already (`mindie serve` does, for as long as it serves).
    """
    from agent.update.install_once import install

    with local_executor(config, on_progress, locked=locked) as (executor, slots):
        return install(archive, executor=executor, slots=slots, policy=policy, new_id=new_id)


def roll_back_here(config: AgentConfig, model: str | None, on_progress: Callable[[str], None]) -> dict[str, Any]:
    """`mindie rollback` without a daemon: the status afterwards. Raises UpdateError, DataFolderLocked."""
    from agent.update.inbox import WishFor
    from agent.update.install_once import committed_or_raise
    from agent.update.report import status_document
    from agent.update.wishes import rollback_wish

    with local_executor(config, on_progress) as (executor, _):
        name, wish = rollback_wish(executor.state, model, f"local-{new_id()}")
        executor.submit(WishFor(name, wish))
        executor.settle()
        if wish.digest is not None:
            committed_or_raise(executor.state, name, wish.deployment)
        return status_document(executor.state, name, daemon=False)


def enrol_device(
    config: AgentConfig, token: EnrolmentToken, server: str, name: str | None, labels: dict[str, str], *, replace: bool
) -> Enrolled:
    """Use the token up and keep the identity. ``replace``: take the name even from a device that is online.

    Raises LinkError, DataFolderLocked, OSError.
    """
    from agent.device_facts import fingerprint
    from agent.fleet_link.enrol import enrol
    from agent.fleet_link.identity import save_identity
    from agent.update.registry_source import make_session
    from edge_contracts.enrolment import EnrolRequest

    with data_lock(config.data_dir):
        request = EnrolRequest(
            secret=token.secret, device=name, fingerprint=fingerprint(), labels=labels,
            capabilities=DeviceFacts(config.data_dir)(), replace=replace,
        )  # fmt: skip
        enrolled = enrol(token, request, make_session(config.download, None), config.download, server)
        save_identity(config.data_dir, enrolled.identity, RealDisk())
    return enrolled


def make_daemon(config: AgentConfig) -> Daemon:
    """Everything of `mindie run`, not started yet."""
    from agent.first_measurement import FirstMeasurement, MeasuringParts
    from agent.hardware.sysfs import this_machine
    from agent.live_tuning import LiveTuning, TuningGround
    from agent.serving.process import ServerProcess
    from agent.supervisor import Daemon, DaemonParts
    from agent.telemetry import Telemeter, throttled_now
    from agent.update.ledger import Ledger
    from agent.update.live_serving import LiveServing
    from agent.update.probation import Probation

    ground = make_ground(config)
    identity = _identity(config)
    session = _session(ground, identity) if identity is not None else None
    daemon = Daemon()
    options = serving_options(config)
    server = ServerProcess(options, on_event=daemon.on_engine_event)
    probation = Probation(daemon.state, ground.inbox.put, ground.clock.monotonic)
    tuning = LiveTuning(
        TuningGround(config.data_dir, ground.clock, ground.facts, ground.affinity, config.reserve_mb), server
    )

    recent = RecentLatency(ground.clock.monotonic)

    def on_latency(name: str, latency: StageLatency) -> None:
        recent.add(name, latency)
        probation.on_latency(name, latency)
        tuning.on_latency(name, latency)

    ledger = Ledger(server.drain_stats, on_latency)
    serving = LiveServing(tuning.server, ledger, ground.clock, options.batching)
    executor = make_executor(ground, serving, identity, daemon.on_change, daemon.on_progress, recent)
    dropped = session.take_dropped if session is not None else _none_dropped
    telemeter = Telemeter(
        ledger.take, dropped, ground.clock.now_ms, ground.clock.monotonic,
        throttled=lambda: throttled_now(this_machine()),
    )  # fmt: skip
    measuring = FirstMeasurement(
        MeasuringParts(ground.clock, ground.facts, daemon.on_measured, daemon.is_working, tuning.cpus)
    )
    daemon.assemble(
        DaemonParts(
            config=config, clock=ground.clock, facts=ground.facts, affinity=ground.affinity, executor=executor,
            inbox=ground.inbox, server=server, bind=bind_of(config),
            serving=serving, probation=probation, telemeter=telemeter, session=session, tuning=tuning,
            start_tuning=partial(tuning.start, ledger.collect), new_id=new_id,
            measuring=measuring if config.measure_at_start else None,
        )
    )  # fmt: skip
    return daemon


def _none_dropped() -> int:
    return 0


def _selection(ground: Ground, recent: RecentLatency) -> Selection:
    from agent.update.by_measurement import MeasuredSelection

    config = ground.config
    return MeasuredSelection(
        config.data_dir, ground.facts, ground.affinity, ground.clock.monotonic, config.reserve_mb,
        config.update.proof_pairs, recent.of,
    )  # fmt: skip


def _identity(config: AgentConfig) -> Identity | None:
    from agent.fleet_link.identity import load_identity

    return load_identity(config.data_dir)


def _fleet_sources(ground: Ground, identity: Identity | None) -> Callable[[str], BlobSource | None]:
    """requests is imported at the first download: an idle daemon does not carry it."""
    lock = threading.Lock()
    made: dict[str, BlobSource] = {}

    def source(name: str) -> BlobSource | None:
        if identity is None:
            return None
        from agent.update.registry_source import RegistrySource, make_session

        with lock:
            if name not in made:
                config = ground.config.download
                session = make_session(config, identity)
                made[name] = RegistrySource(identity.server, name, session, config, ground.clock.monotonic)
            return made[name]

    return source


def _session(ground: Ground, identity: Identity) -> DeviceSession:
    from agent.checked_file import CheckedFile
    from agent.fleet_link.device_session import DeviceSession
    from agent.fleet_link.done_commands import DoneCommands
    from agent.fleet_link.mqtt import Address, MqttLink
    from agent.fleet_link.numbers import Counter
    from agent.fleet_link.outbox import Outbox

    state_dir, disk, config = ground.config.data_dir / "state", ground.disk, ground.config.link
    addresses = [Address(host, port, identity.mqtt.tls) for host, port in identity.broker_addresses(config)]
    clock = ground.clock

    def seconds() -> int:
        return clock.now_ms() // 1000

    link = MqttLink(identity.account, addresses, config, clock, random.Random())
    return DeviceSession(
        link, identity.account, Outbox(state_dir / "outbox", disk, config.max_outbox_events),
        Counter(CheckedFile(state_dir / "session", disk), seconds),
        Counter(CheckedFile(state_dir / "events", disk), seconds),
        DoneCommands(CheckedFile(state_dir / "commands", disk)), clock,
    )  # fmt: skip
