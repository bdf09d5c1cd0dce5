"""A device's long life in fast time: updates, bad bundles, cuts, full disks, changes of mind, from a seed. At each step
one valid bundle serves, or none where none was ever committed, and the report is true.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.update.archive_source import ArchiveSource
from agent.update.inbox import Cancel, WishFor, Worse
from agent.update.install_once import check_file, wish_for_file
from agent.update.report import reported
from agent.update.wishes import rollback_wish
from edge_contracts import messages
from edge_contracts.messages import DesiredModel, Policy
from tests.simulators import bundle_factory
from tests.simulators.durable_disk import CutDisk, FullDisk, PowerCut
from tests.simulators.update_rig import Rig

VERSIONS = [f"{number}.0.0" for number in range(1, 7)]
STEPS = 250


class Life:
    """``lose_power`` and the others are what may happen; ``check`` is what must hold after each of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.bundles = {
            version: bundle_factory.stub_bundle(folder / f"{version}.mindie", version=version, seed=number)
            for number, version in enumerate(VERSIONS)
        }
        self.rig = Rig(folder / "data")
        self.rig.boot()
        self.number = 0
        self.told = 0

    def step(self) -> None:
        faults = self.rig.selection
        faults.wrong = set(self.rng.sample(VERSIONS, 1))
        faults.slow = set(self.rng.sample(VERSIONS, 1))
        self.rig.serving.faulty = set(self.rng.sample(VERSIONS, 1))
        self.rig.clock.elapsed_s += self.rng.uniform(1, 600)
        happenings: list[Callable[[], None]] = [
            self.install, self.install, self.wish, self.wish, self.lose_power, self.fill_disk, self.change_mind,
            self.roll_back, self.get_worse, self.stop_cleanly,
        ]  # fmt: skip
        self.rng.choice(happenings)()
        self.check()

    def install(self) -> None:
        self.rig.submit(self._message())

    def wish(self) -> None:
        version = self.rng.choice(VERSIONS)
        self.rig.sources["affine"] = ArchiveSource(self.bundles[version])
        bundle, policy = check_file(self.bundles[version]), Policy(allow_unsigned=True, soak_s=5)
        self.number += 1
        wanted = DesiredModel(deployment=f"r{self.number}", version=version, digest=bundle.digest, policy=policy)
        self.rig.want(self.number, **({"affine": wanted} if self.rng.random() > 0.1 else {}))

    def change_mind(self) -> None:
        later = [self._message(), Cancel(f"x{self.number}")]
        self.rig.selection.during = lambda: self.rig.executor.submit(later.pop()) if later else None
        self.install()
        self.rig.selection.during = lambda: None

    def lose_power(self) -> None:
        self._restart(CutDisk(self.rng.randrange(1, 60), self.rng.choice(["before", "middle", "after"])))

    def fill_disk(self) -> None:
        self._restart(FullDisk(self.rng.randrange(1, 60)))

    def stop_cleanly(self) -> None:
        self.rig.selection.during = self.rig.executor.stop
        self.install()
        self.rig.selection.during = lambda: None
        self.rig.executor.close()
        self.rig.restart()
        self.rig.boot()

    def roll_back(self) -> None:
        if self.rig.model().active is not None:
            self.number += 1
            self.rig.submit(WishFor(*rollback_wish(self.rig.executor.state, "affine", f"b{self.number}")))

    def get_worse(self) -> None:
        self.rig.executor.submit(Worse("affine", "the engine crashed", go_back=self.rng.random() > 0.5))
        self.rig.executor.settle()

    def check(self) -> None:
        rig = self.rig
        active = rig.model().active
        assert rig.serving.served.get("affine") == (active.version if active is not None else None)
        if active is not None:
            folder = rig.slots.folder("affine", active.digest)
            for blob, size in folder.bundle.blobs().items():
                rig.slots.check(blob, size)
        deployment = rig.model().deployment
        assert deployment is None or not deployment.in_flight
        report = reported(rig.executor.state)
        assert messages.decode(messages.encode(report), messages.Reported) == report
        assert report.version >= self.told
        self.told = report.version

    def _message(self) -> WishFor:
        self.number += 1
        policy = Policy(allow_unsigned=True, soak_s=self.rng.choice([0, 5]))
        return wish_for_file(self.bundles[self.rng.choice(VERSIONS)], policy, f"l{self.number}")

    def _restart(self, disk: CutDisk | FullDisk) -> None:
        self.rig.executor.close()
        self.rig.restart(disk)
        try:
            self.rig.boot()
            self.install()
        except PowerCut:
            pass
        self.rig.clock.elapsed_s += 1
        self.rig.restart()
        self.rig.boot()


@pytest.mark.parametrize("seed", [1, 2, 3, 2026])
def test_a_device_is_true_and_serves_through_a_long_life(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    for number in range(STEPS):
        try:
            life.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number}: {error}") from error
