"""The power goes before, in and after every durable change of a whole update. After restarts exactly one valid bundle
serves, and what the device says of itself is true.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from agent.update.inbox import WishFor
from agent.update.install_once import check_file
from agent.update.wishes import rollback_wish
from edge_contracts.deployment import DeploymentState
from edge_contracts.messages import Policy
from tests.simulators import bundle_factory
from tests.simulators.durable_disk import CutDisk, PowerCut
from tests.simulators.update_rig import Rig

SOAKED = Policy(allow_unsigned=True, soak_s=5)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("bundles")
    return [
        bundle_factory.stub_bundle(folder / f"{number}.mindie", version=f"{number}.0.0", seed=number)
        for number in (1, 2)
    ]


def whole_update(rig: Rig, bundles: list[Path]) -> None:
    """Install 1, install 2 over it, go back to 1. Wishes already done do nothing, so it may be called again."""
    done = {entry.deployment for entry in rig.executor.history()}
    for bundle, deployment in zip(bundles, ("d1", "d2"), strict=True):
        if deployment not in done:
            rig.install(bundle, deployment, SOAKED)
    if "back" not in done and rig.model().last_good is not None:
        rig.submit(WishFor(*rollback_wish(rig.executor.state, "affine", "back")))


def whole_life(rig: Rig, bundles: list[Path]) -> None:
    """From power on to a clean stop."""
    rig.boot()
    whole_update(rig, bundles)
    rig.executor.close()


def check_truth(rig: Rig) -> None:
    """What is said to be active serves, is whole, and its files are here."""
    active = rig.model().active
    assert rig.serving.served.get("affine") == (active.version if active is not None else None)
    if active is not None:
        folder = rig.slots.folder("affine", active.digest)
        for blob, size in folder.bundle.blobs().items():
            rig.slots.check(blob, size)


def count_changes(tmp_path: Path, bundles: list[Path]) -> int:
    disk = CutDisk(None)
    rig = Rig(tmp_path / "dry", disk)
    whole_life(rig, bundles)
    assert rig.model().active.version == "1.0.0"  # type: ignore[union-attr]
    return disk.changes


@pytest.mark.parametrize("torn", ["before", "middle", "after"])
def test_a_power_cut_at_every_durable_change_leaves_one_valid_bundle_and_a_true_report(
    tmp_path: Path, bundles: list[Path], torn: str
) -> None:
    total = count_changes(tmp_path, bundles)
    assert total > 40
    for cut_at in range(1, total + 1):
        rig = Rig(tmp_path / f"{torn}-{cut_at}", CutDisk(cut_at, torn))
        with pytest.raises(PowerCut):
            whole_life(rig, bundles)
        rig.restart()
        rig.boot()
        check_truth(rig)
        whole_update(rig, bundles)
        check_truth(rig)
        assert rig.model().active.version == "1.0.0", f"cut at change {cut_at} of {total}"  # type: ignore[union-attr]
    print(f"{total} points cut ({torn})")


def test_two_cuts_in_one_update_are_no_worse_than_one(tmp_path: Path, bundles: list[Path]) -> None:
    total = count_changes(tmp_path, bundles)
    for number, (first, second) in enumerate(itertools.product(range(3, total, 11), range(1, 20, 5))):
        rig = Rig(tmp_path / str(number), CutDisk(first, "middle"))
        with pytest.raises(PowerCut):
            whole_life(rig, bundles)
        rig.restart(CutDisk(second, "middle"))
        try:
            rig.boot()
            whole_update(rig, bundles)
        except PowerCut:
            rig.restart()
            rig.boot()
            whole_update(rig, bundles)
        check_truth(rig)


@pytest.mark.parametrize("damage", [b"", b"\0" * 200, b"torn", None], ids=["empty", "zeros", "torn", "cut in half"])
def test_a_damaged_journal_falls_back_to_the_copy_before_it(
    tmp_path: Path, bundles: list[Path], damage: bytes | None
) -> None:
    rig = Rig(tmp_path / "data")
    rig.boot()
    rig.install(bundles[0], "d1")
    rig.install(bundles[1], "d2")
    journal = tmp_path / "data" / "state" / "journal"
    content = journal.read_bytes()
    journal.write_bytes(content[: len(content) // 2] if damage is None else damage)
    rig.restart()
    rig.boot()
    check_truth(rig)
    assert rig.model().deployment.state is DeploymentState.COMMITTED  # type: ignore[union-attr]
    assert rig.model().active.digest == check_file(bundles[1]).digest  # type: ignore[union-attr]


def test_a_journal_lost_whole_is_an_empty_device_that_can_be_updated(tmp_path: Path, bundles: list[Path]) -> None:
    rig = Rig(tmp_path / "data")
    rig.boot()
    rig.install(bundles[0], "d1")
    for path in (tmp_path / "data" / "state").glob("journal*"):
        path.write_bytes(b"\0" * 100)
    rig.restart()
    rig.boot()
    assert rig.executor.state.models == {}
    rig.install(bundles[1], "d2")
    check_truth(rig)
