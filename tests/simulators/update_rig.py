"""The update machine on a real folder, with simulated selection and serving."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.config import AgentConfig
from agent.disk import Disk, RealDisk
from agent.errors import LoadFailed, NoCandidate, UpdateInterrupted
from agent.inference.bundle_folder import BundleFolder
from agent.update.blob_source import BlobSource
from agent.update.download import Downloader, Pacing
from agent.update.effects import Interrupt, Placed, Progress, Proof, Proving, Watched
from agent.update.executor import Executor, Rooms
from agent.update.inbox import Desire, Inbox, Message
from agent.update.install_once import wish_for_file
from agent.update.journal import Journal
from agent.update.records import DeviceState, ModelState
from agent.update.slots import Slots
from agent.update.steps import Steps
from agent.update.trial import Trial
from agent.update.verification import NoTrust
from edge_contracts.capabilities import Capabilities
from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence, Latency
from edge_contracts.messages import Desired, DesiredModel, Policy
from tests.simulators.fake_clock import FakeClock

UNSIGNED = Policy(allow_unsigned=True)


class StubSelection:
    """Takes the first variant. ``wrong`` and ``slow`` hold versions that fail their goldens or the comparison."""

    def __init__(self) -> None:
        self.wrong: set[str] = set()
        self.slow: set[str] = set()
        self.calls: list[str] = []
        self.during: Callable[[], None] = lambda: None

    def choose(
        self, folder: BundleFolder, proving: Proving, progress: Progress, interrupt: Interrupt
    ) -> ChoiceEvidence:
        version = folder.bundle.spec.version
        self.calls.append(f"choose {version}")
        self.during()
        if interrupt():
            raise UpdateInterrupted("canceled")
        assert folder.goldens_file.read_bytes()
        variant = folder.variants_present()[0]
        chosen = CandidateEvidence(
            name=variant.name, variant=variant.name, runtime=variant.spec.runtime, precision="fp32", status="chosen",
            options={"threads": 1}, latency=Latency(p50_ms=1.0, p90_ms=2.0), provider="stub",
        )  # fmt: skip
        evidence = ChoiceEvidence(chosen=chosen, why="fastest")
        if version in self.wrong:
            raise NoCandidate("the goldens do not agree", "golden_mismatch", evidence)
        return evidence

    def prove_no_worse(
        self, new: Placed, old: Placed, proving: Proving, progress: Progress, interrupt: Interrupt
    ) -> Proof:
        self.calls.append(f"prove {new.version} against {old.version}")
        self.during()
        if interrupt():
            raise UpdateInterrupted("canceled")
        return Proof(new.version not in self.slow, f"p90 {new.version} against {old.version}")

    def distrust(self, placed: Placed, reason: str) -> None:
        self.calls.append(f"distrust {placed.version}: {reason}")


class StubServing:
    """``served`` is what answers now; ``broken`` versions do not load, ``faulty`` ones fail in the soak."""

    def __init__(self) -> None:
        self.served: dict[str, str] = {}
        self.log: list[str] = []
        self.broken: set[str] = set()
        self.faulty: set[str] = set()
        self.during_soak: Callable[[], None] = lambda: None

    def switch_to(self, placed: Placed) -> str | None:
        entry = placed.folder.variant_folder(placed.variant)
        assert any(entry.iterdir())
        if placed.version in self.broken:
            raise LoadFailed(placed.name, "does not load")
        self.served[placed.name] = placed.version
        self.log.append(placed.version)
        return "stub"

    def remove(self, name: str) -> None:
        self.served.pop(name, None)

    def watch(self, placed: Placed, seconds: float, interrupt: Interrupt) -> Watched:
        self.during_soak()
        if interrupt():
            raise UpdateInterrupted("stopped in the soak")
        return Watched("the engine crashed", "crash") if placed.version in self.faulty else Watched()


class Rig:
    """One device. ``restart()`` is a new process on the same folder, with a new server that serves nothing yet."""

    def __init__(self, data_dir: Path, disk: Disk | None = None, **config: Any) -> None:
        self.config = AgentConfig(data_dir=data_dir, **{"reserve_mb": 0, **config})
        self.clock = FakeClock()
        self.selection = StubSelection()
        self.sources: dict[str, BlobSource] = {}
        self.capabilities = Capabilities()
        self.changes: list[DeviceState] = []
        self.progress: list[str] = []
        self._ids = itertools.count(1)
        self.restart(disk)

    def restart(self, disk: Disk | None = None) -> None:
        self.disk = disk or RealDisk()
        self.serving = StubServing()
        self.inbox = Inbox()
        data_dir = self.config.data_dir
        self.slots = Slots(data_dir, self.disk)
        self.journal = Journal(data_dir, self.disk)
        pacing = Pacing(self.clock.monotonic, self._pause, random.Random(1))
        downloader = Downloader(self.slots, self.disk, self.config.download, pacing)
        steps = Steps(
            self.slots, self.disk, downloader, self.selection, NoTrust(), self.config, lambda: self.capabilities,
            self.sources.get,
        )  # fmt: skip
        trial = Trial(self.slots, self.selection, self.serving, self.clock.now_ms)
        rooms = Rooms(
            self.journal, self.slots, steps, trial, self.serving, self.config, self.clock, self.inbox,
            lambda: str(next(self._ids)),
        )  # fmt: skip
        self.executor = Executor(rooms, self.changes.append, lambda _, text: self.progress.append(text))

    def boot(self) -> None:
        """What the daemon does at its start, and then all work there is."""
        self.executor.open()
        self.executor.start_serving()
        self.executor.settle()

    def install(self, bundle: Path, deployment: str, policy: Policy = UNSIGNED) -> None:
        self.executor.submit(wish_for_file(bundle, policy, deployment))
        self.executor.settle()

    def want(self, version: int, **models: DesiredModel) -> None:
        self.executor.submit(Desire(Desired(version=version, models=models)))
        self.executor.settle()

    def submit(self, message: Message) -> None:
        self.executor.submit(message)
        self.executor.settle()

    def model(self, name: str = "affine") -> ModelState:
        return self.executor.state.model(name)

    def _pause(self, seconds: float, interrupt: Interrupt) -> None:
        if not interrupt():
            self.clock.elapsed_s += seconds
