from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from agent.update.inbox import WishFor, Worse
from agent.update.report import final_marks, reported, status_document
from agent.update.wishes import rollback_wish
from edge_contracts import messages
from edge_contracts.deployment import DeploymentState
from edge_contracts.messages import Reported
from tests.simulators import bundle_factory
from tests.simulators.durable_disk import FullDisk
from tests.simulators.update_rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path / "data")
    rig.boot()
    return rig


def bundle(rig: Rig, version: str) -> Path:
    path = rig.config.data_dir.parent / f"{version}.mindie"
    return bundle_factory.stub_bundle(path, version=version, seed=int(version[0]))


def test_every_report_has_a_higher_version_also_after_a_restart(rig: Rig) -> None:
    rig.install(bundle(rig, "1.0.0"), "d1")
    rig.executor.close()
    rig.restart()
    rig.boot()
    rig.install(bundle(rig, "2.0.0"), "d2")
    for before, after in itertools.pairwise(rig.changes):
        assert after.version > before.version or after.models == before.models


def test_versions_told_while_the_disk_refused_are_jumped_over(rig: Rig) -> None:
    disk = FullDisk(full_at=1)
    rig.restart(disk)
    rig.boot()
    rig.install(bundle(rig, "1.0.0"), "d1")
    rig.executor.close()
    told = rig.executor.state.version
    rig.clock.elapsed_s += 60
    rig.restart()
    rig.boot()
    assert rig.executor.state.version > told


def test_a_report_tells_what_serves_and_what_was_tried(rig: Rig) -> None:
    rig.install(bundle(rig, "1.0.0"), "d1")
    rig.selection.wrong.add("2.0.0")
    rig.install(bundle(rig, "2.0.0"), "d2")
    told = messages.decode(messages.encode(reported(rig.executor.state)), Reported).models["affine"]
    assert (told.deployment, told.state, told.error_code) == ("d2", DeploymentState.FAILED, "golden_mismatch")
    assert told.attempted is not None
    assert told.attempted.version == "2.0.0"
    assert told.active is not None
    assert (told.active.version, told.active.provider, told.active.signed) == ("1.0.0", "stub", False)


def test_a_removed_model_is_in_no_report(rig: Rig) -> None:
    rig.install(bundle(rig, "1.0.0"), "d1")
    rig.submit(WishFor(*rollback_wish(rig.executor.state, None, "back")))
    assert reported(rig.executor.state).models == {}
    assert status_document(rig.executor.state, None, daemon=False)["active"] is None


def test_ends_and_regressions_must_be_heard(rig: Rig) -> None:
    before = final_marks(rig.executor.state)
    rig.install(bundle(rig, "1.0.0"), "d1")
    committed = final_marks(rig.executor.state)
    assert committed - before
    rig.submit(Worse("affine", "slow", go_back=False))
    assert final_marks(rig.executor.state) - committed
    rig.want(1)
    assert not final_marks(rig.executor.state) - final_marks(rig.executor.state)


def test_the_top_level_of_status_is_the_model_last_changed_or_asked_for(rig: Rig, tmp_path: Path) -> None:
    rig.install(bundle(rig, "1.0.0"), "d1")
    other = bundle_factory.stub_bundle(tmp_path / "other.mindie", name="other", version="3.0.0")
    rig.install(other, "d2")
    document = status_document(rig.executor.state, None, daemon=True)
    assert (document["active"]["name"], document["active"]["version"]) == ("other", "3.0.0")
    assert document["in_flight"] is None
    assert [entry["name"] for entry in document["models"]] == ["affine", "other"]
    asked = status_document(rig.executor.state, "affine", daemon=True)
    assert (asked["state"], asked["active"]["version"], asked["healthy"]) == ("committed", "1.0.0", True)


def test_an_empty_device_has_a_status(rig: Rig) -> None:
    document = status_document(rig.executor.state, None, daemon=False)
    assert {"state", "active", "last_good", "in_flight", "healthy", "models"} <= document.keys()
    assert document["models"] == []
