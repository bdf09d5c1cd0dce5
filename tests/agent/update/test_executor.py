from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent.update.executor import move_text, progress_word
from agent.update.inbox import Cancel, Desire, WishFor, Worse
from agent.update.install_once import check_file, wish_for_file
from agent.update.records import Deployment, Wish
from agent.update.wishes import rollback_wish
from edge_contracts.capabilities import Capabilities, RuntimeFact
from edge_contracts.deployment import DeploymentState
from edge_contracts.messages import Desired, DesiredModel, Policy
from tests.simulators import bundle_factory
from tests.simulators.durable_disk import FullDisk
from tests.simulators.update_rig import UNSIGNED, Rig

S = DeploymentState


@pytest.fixture
def bundles(tmp_path: Path) -> dict[str, Path]:
    return {
        version: bundle_factory.stub_bundle(tmp_path / f"{version}.mindie", version=version, seed=seed)
        for version, seed in (("1.0.0", 7), ("2.0.0", 8), ("3.0.0", 9))
    }


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path / "data")
    rig.boot()
    return rig


def wanted(bundle: Path, deployment: str, policy: Policy = UNSIGNED) -> DesiredModel:
    parsed = check_file(bundle)
    return DesiredModel(deployment=deployment, version=parsed.spec.version, digest=parsed.digest, policy=policy)


def from_fleet(rig: Rig, bundle: Path) -> None:
    """The fleet's registry holds this bundle."""
    from agent.update.archive_source import ArchiveSource

    rig.sources["affine"] = ArchiveSource(bundle)


def test_a_good_bundle_is_committed_and_serves(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    model = rig.model()
    assert model.deployment is not None
    assert model.deployment.state is S.COMMITTED
    assert model.active is not None
    assert (model.active.version, model.active.variant, model.active.signed) == ("1.0.0", "stub-fp32-cpu", False)
    assert rig.serving.served == {"affine": "1.0.0"}


def test_the_states_are_gone_through_in_order(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    states = [state.model("affine").deployment for state in rig.changes]
    assert [deployment.state.value for deployment in states if deployment is not None] == [
        "queued", "downloading", "verifying", "installing", "probing", "trial", "committed",
    ]  # fmt: skip


@pytest.mark.parametrize(("is_local", "word"), [(True, "reading"), (False, "downloading")])
def test_a_file_on_this_machine_is_read_and_one_of_the_fleet_downloaded(
    is_local: bool, word: str
) -> None:  # fmt: skip
    wish = Wish(deployment="d", version="1.0.0", digest="x", source="/a/b.mindie" if is_local else None)
    assert progress_word(Deployment(wish=wish, state=S.DOWNLOADING, queued_ms=0, since_ms=0)) == word
    assert progress_word(Deployment(wish=wish, state=S.PROBING, queued_ms=0, since_ms=0)) == "probing"


@pytest.mark.parametrize(
    ("wish", "state", "text"),
    [
        (Wish(deployment="d", version=None, digest=None), S.COMMITTED, "digits: removed"),
        (Wish(deployment="d", version=None, digest=None), S.FAILED, "digits: failed (why)"),
        (Wish(deployment="d", version="1.0.0", digest="x"), S.COMMITTED, "digits 1.0.0: committed (why)"),
    ],
)
def test_the_log_tells_a_removal_in_words(wish: Wish, state: DeploymentState, text: str) -> None:
    assert move_text("digits", Deployment(wish=wish, state=state, queued_ms=0, since_ms=0, reason="why")) == text


def test_an_unsigned_bundle_is_rejected_unless_that_is_allowed(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1", Policy())
    deployment = rig.model().deployment
    assert deployment is not None
    assert (deployment.state, deployment.error_code) == (S.REJECTED, "unsigned")
    assert "--allow-unsigned" in str(deployment.reason)
    assert not list((rig.config.data_dir / "blobs").rglob("*"))


def test_the_second_version_is_proven_against_the_first(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.install(bundles["2.0.0"], "d2")
    assert rig.selection.calls[-1] == "prove 2.0.0 against 1.0.0"
    assert rig.model().last_good is not None
    assert rig.model().last_good.version == "1.0.0"  # type: ignore[union-attr]


def test_a_bundle_with_wrong_answers_fails_and_the_old_one_serves_on(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.selection.wrong.add("2.0.0")
    rig.install(bundles["2.0.0"], "d2")
    deployment, active = rig.model().deployment, rig.model().active
    assert deployment is not None
    assert active is not None
    assert (deployment.state, deployment.error_code) == (S.FAILED, "golden_mismatch")
    assert active.version == "1.0.0"
    assert rig.serving.log == ["1.0.0"]
    assert deployment.evidence is not None


def test_a_slower_bundle_is_never_switched_in(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.selection.slow.add("2.0.0")
    rig.install(bundles["2.0.0"], "d2")
    deployment = rig.model().deployment
    assert deployment is not None
    assert (deployment.state, deployment.error_code) == (S.FAILED, "slower")
    assert rig.serving.log == ["1.0.0"]


def test_a_bundle_that_does_not_load_leaves_the_old_one_serving(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.serving.broken.add("2.0.0")
    rig.install(bundles["2.0.0"], "d2")
    assert rig.model().deployment.state is S.FAILED  # type: ignore[union-attr]
    assert rig.serving.served == {"affine": "1.0.0"}


def test_a_bundle_that_fails_in_the_soak_is_rolled_back(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.serving.faulty.add("2.0.0")
    rig.install(bundles["2.0.0"], "d2", Policy(allow_unsigned=True, soak_s=60))
    deployment = rig.model().deployment
    assert deployment is not None
    assert (deployment.state, deployment.error_code) == (S.ROLLED_BACK, "crash")
    assert rig.serving.log == ["1.0.0", "2.0.0", "1.0.0"]


def test_going_back_that_fails_is_told_as_such(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.serving.faulty.add("2.0.0")
    rig.serving.during_soak = lambda: rig.serving.broken.add("1.0.0")
    rig.install(bundles["2.0.0"], "d2", Policy(allow_unsigned=True, soak_s=60))
    assert rig.model().deployment.state is S.ROLLBACK_FAILED  # type: ignore[union-attr]


def test_a_first_bundle_that_fails_in_the_soak_leaves_nothing_serving(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.serving.faulty.add("1.0.0")
    rig.install(bundles["1.0.0"], "d1", Policy(allow_unsigned=True, soak_s=60))
    assert rig.model().deployment.state is S.ROLLED_BACK  # type: ignore[union-attr]
    assert rig.model().active is None
    assert rig.serving.served == {}


def test_a_changed_byte_in_the_file_fails_with_digest(rig: Rig, bundles: dict[str, Path], tmp_path: Path) -> None:
    from edge_contracts.archive import open_bundle

    archive = open_bundle(bundles["1.0.0"])
    weight = archive.bundle.variants[0].files[0].digest
    data = bytearray(bundles["1.0.0"].read_bytes())
    data[archive.members[weight].offset + 3] ^= 1
    changed = tmp_path / "changed.mindie"
    changed.write_bytes(data)
    rig.install(changed, "d1")
    deployment = rig.model().deployment
    assert deployment is not None
    assert (deployment.state, deployment.error_code) == (S.FAILED, "digest")
    assert rig.serving.served == {}


def test_a_bundle_for_another_machine_is_rejected_before_its_weights_are_fetched(rig: Rig, tmp_path: Path) -> None:
    bundle = bundle_factory.stub_bundle(tmp_path / "a.mindie")
    rig.capabilities = Capabilities(runtimes=[RuntimeFact(name="onnxruntime", version="1.0", status="usable")])
    rig.install(bundle, "d1")
    deployment = rig.model().deployment
    assert deployment is not None
    assert (deployment.state, deployment.error_code) == (S.REJECTED, "incompatible")
    assert "needs the runtime stub" in str(deployment.reason)
    weight = check_file(bundle).variants[0].files[0].digest
    assert not rig.slots.has(weight)


def test_too_little_space_is_told_before_the_download(rig: Rig, bundles: dict[str, Path], tmp_path: Path) -> None:
    small = Rig(tmp_path / "other", reserve_mb=1 << 30)
    small.boot()
    small.install(bundles["1.0.0"], "d1")
    deployment = small.model().deployment
    assert deployment is not None
    assert (deployment.state, deployment.error_code) == (S.FAILED, "no_space")
    assert "reserve_mb" in str(deployment.reason)


def test_the_same_wish_twice_does_nothing(rig: Rig, bundles: dict[str, Path]) -> None:
    from_fleet(rig, bundles["1.0.0"])
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    changes = len(rig.changes)
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    assert len(rig.changes) == changes


def test_a_failed_wish_is_not_tried_again_when_it_is_delivered_again(rig: Rig, bundles: dict[str, Path]) -> None:
    from_fleet(rig, bundles["1.0.0"])
    rig.selection.wrong.add("1.0.0")
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    assert rig.selection.calls == ["choose 1.0.0"]


def test_a_new_deployment_of_the_active_bundle_is_committed_at_once(rig: Rig, bundles: dict[str, Path]) -> None:
    from_fleet(rig, bundles["1.0.0"])
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    rig.want(2, affine=wanted(bundles["1.0.0"], "r2"))
    assert rig.model().deployment.state is S.COMMITTED  # type: ignore[union-attr]
    assert rig.model().active.deployment == "r2"  # type: ignore[union-attr]
    assert rig.selection.calls == ["choose 1.0.0"]


def test_an_older_wish_that_comes_late_is_ignored(rig: Rig, bundles: dict[str, Path]) -> None:
    from_fleet(rig, bundles["2.0.0"])
    rig.want(5, affine=wanted(bundles["2.0.0"], "r2"))
    rig.want(4, affine=wanted(bundles["1.0.0"], "r1"))
    assert rig.model().active.version == "2.0.0"  # type: ignore[union-attr]
    assert rig.executor.state.desired_version == 5


def test_a_newer_wish_supersedes_the_one_in_flight(rig: Rig, bundles: dict[str, Path]) -> None:
    from_fleet(rig, bundles["1.0.0"])
    newer = Desire(Desired(version=2, models={"affine": wanted(bundles["2.0.0"], "r2")}))

    def midway() -> None:
        from_fleet(rig, bundles["2.0.0"])
        rig.selection.during = lambda: None
        rig.executor.submit(newer)

    rig.selection.during = midway
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    ends = {entry.deployment: entry.state for entry in rig.executor.history()}
    assert ends == {"r1": S.SUPERSEDED, "r2": S.COMMITTED}
    assert rig.serving.log == ["2.0.0"]


def test_a_wish_that_supersedes_in_the_soak_puts_the_old_one_back_first(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.serving.during_soak = lambda: rig.executor.submit(wish_for_file(bundles["3.0.0"], UNSIGNED, "d3"))
    rig.install(bundles["2.0.0"], "d2", Policy(allow_unsigned=True, soak_s=60))
    assert rig.serving.log == ["1.0.0", "2.0.0", "1.0.0", "3.0.0"]
    assert rig.model().last_good.version == "1.0.0"  # type: ignore[union-attr]


def test_a_repeated_wish_does_not_disturb_the_deployment_in_flight(rig: Rig, bundles: dict[str, Path]) -> None:
    from_fleet(rig, bundles["1.0.0"])
    again = Desire(Desired(version=1, models={"affine": wanted(bundles["1.0.0"], "r1")}))
    rig.selection.during = lambda: rig.executor.submit(again)
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    assert rig.selection.calls == ["choose 1.0.0"]
    assert rig.model().deployment.state is S.COMMITTED  # type: ignore[union-attr]


def test_a_canceled_deployment_ends_so(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.selection.during = lambda: rig.executor.submit(Cancel("d1"))
    rig.install(bundles["1.0.0"], "d1")
    assert rig.model().deployment.state is S.CANCELED  # type: ignore[union-attr]


def test_a_state_that_takes_too_long_times_out(rig: Rig, bundles: dict[str, Path]) -> None:
    def dawdle() -> None:
        rig.clock.elapsed_s += 10_000

    rig.selection.during = dawdle
    rig.install(bundles["1.0.0"], "d1")
    deployment = rig.model().deployment
    assert deployment is not None
    assert (deployment.state, deployment.error_code) == (S.TIMED_OUT, "timed_out")


def test_a_stop_in_the_middle_goes_on_at_the_next_start(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.selection.during = rig.executor.stop
    rig.install(bundles["1.0.0"], "d1")
    assert rig.model().deployment.state is S.PROBING  # type: ignore[union-attr]
    rig.executor.close()
    rig.selection.during = lambda: None
    rig.restart()
    rig.boot()
    assert rig.model().deployment.state is S.COMMITTED  # type: ignore[union-attr]
    assert rig.serving.served == {"affine": "1.0.0"}


def test_a_deployment_that_cuts_the_power_every_time_is_given_up(rig: Rig, bundles: dict[str, Path]) -> None:
    class Cut(BaseException):
        pass

    def cut() -> None:
        raise Cut

    rig.selection.during = cut
    with pytest.raises(Cut):
        rig.install(bundles["1.0.0"], "d1")
    for _ in range(2):
        rig.restart()
        with pytest.raises(Cut):
            rig.boot()
    rig.restart()
    rig.boot()
    deployment = rig.model().deployment
    assert deployment is not None
    assert (deployment.state, deployment.error_code) == (S.FAILED, "crash")
    assert "3 times while probing" in str(deployment.reason)


def test_a_model_that_is_wished_for_no_more_is_removed(rig: Rig, bundles: dict[str, Path]) -> None:
    from_fleet(rig, bundles["1.0.0"])
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    rig.want(2)
    assert rig.model().active is None
    assert rig.serving.served == {}
    rig.want(3, affine=wanted(bundles["1.0.0"], "r1"))
    assert rig.model().active.version == "1.0.0"  # type: ignore[union-attr]


def test_a_model_installed_by_hand_is_not_removed_by_the_fleet(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.want(1)
    assert rig.serving.served == {"affine": "1.0.0"}


def test_rolling_back_by_hand_needs_no_new_proof_and_no_source(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.install(bundles["2.0.0"], "d2")
    for bundle in bundles.values():
        bundle.unlink()
    calls = list(rig.selection.calls)
    rig.submit(WishFor(*rollback_wish(rig.executor.state, None, "back")))
    assert rig.serving.served == {"affine": "1.0.0"}
    assert rig.selection.calls == calls
    assert rig.model().last_good is None
    assert "by hand from 2.0.0" in str(rig.model().deployment.reason)  # type: ignore[union-attr]


def test_rolling_back_the_first_bundle_leaves_none(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.submit(WishFor(*rollback_wish(rig.executor.state, "affine", "back")))
    assert rig.model().active is None
    assert rig.serving.served == {}
    assert not list((rig.config.data_dir / "models").glob("*/bundles/*"))


def test_the_fleet_goes_back_to_a_pinned_bundle_without_a_race(rig: Rig, bundles: dict[str, Path]) -> None:
    from_fleet(rig, bundles["1.0.0"])
    rig.want(1, affine=wanted(bundles["1.0.0"], "r1"))
    from_fleet(rig, bundles["2.0.0"])
    rig.want(2, affine=wanted(bundles["2.0.0"], "r2"))
    calls = list(rig.selection.calls)
    rig.want(3, affine=wanted(bundles["1.0.0"], "r3", Policy()))
    assert rig.serving.served == {"affine": "1.0.0"}
    assert rig.selection.calls == calls


def test_an_engine_that_keeps_crashing_sends_the_model_back(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.install(bundles["2.0.0"], "d2")
    rig.executor.submit(Worse("affine", "the engine crashed 3 times within an hour", go_back=True))
    rig.executor.settle()
    model = rig.model()
    assert rig.serving.served == {"affine": "1.0.0"}
    assert model.regressed == "d2: the engine crashed 3 times within an hour"
    assert model.healthy
    assert rig.selection.calls[-1] == "distrust 2.0.0: the engine crashed 3 times within an hour"


def test_what_got_slower_is_told_and_not_kept_out_of_later_choices(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.submit(Worse("affine", "p95 over the objective", go_back=False))
    assert not any(call.startswith("distrust") for call in rig.selection.calls)


def test_a_regression_is_told_until_the_next_commit(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.executor.submit(Worse("affine", "the backend fell back", go_back=False))
    rig.executor.settle()
    assert not rig.model().healthy
    assert rig.model().deployment.state is S.COMMITTED  # type: ignore[union-attr]
    rig.install(bundles["2.0.0"], "d2")
    assert rig.model().healthy
    assert rig.model().regressed is None


def test_what_cannot_start_goes_back_to_the_last_good(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.install(bundles["2.0.0"], "d2")
    rig.executor.close()
    rig.restart()
    rig.serving.broken.add("2.0.0")
    rig.boot()
    assert rig.serving.served == {"affine": "1.0.0"}
    assert rig.selection.calls[-1].startswith("distrust 2.0.0: does not start")


def test_files_that_are_gone_are_nobodys_fault(rig: Rig, bundles: dict[str, Path]) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.executor.close()
    rig.restart()
    shutil.rmtree(rig.config.data_dir / "models")
    rig.boot()
    assert rig.model().fault is not None
    assert not any(call.startswith("distrust") for call in rig.selection.calls)


def test_a_byte_that_changed_while_the_power_was_off_is_found_before_it_serves(
    rig: Rig, bundles: dict[str, Path]
) -> None:
    rig.install(bundles["1.0.0"], "d1")
    rig.install(bundles["2.0.0"], "d2")
    active = rig.model().active
    assert active is not None
    rig.executor.close()
    rig.restart()
    bundle = rig.slots.folder("affine", active.digest)
    (weights,) = [one for one in bundle.variant_folder(active.variant).iterdir() if one.is_file()][:1]
    damaged = bytearray(weights.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    with weights.open("r+b") as file:  # in place: the blob in the store is the same file
        file.write(damaged)
    rig.boot()
    assert rig.serving.served == {"affine": "1.0.0"}
    assert not any(call.startswith("distrust") for call in rig.selection.calls)
    rig.install(bundles["2.0.0"], "d3")
    assert rig.serving.served == {"affine": "2.0.0"}


def test_a_disk_that_cannot_note_the_failure_does_not_keep_it_from_going_back(
    rig: Rig, bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(placed: object, reason: str) -> None:
        raise OSError(28, "No space left on device")

    rig.install(bundles["1.0.0"], "d1")
    rig.install(bundles["2.0.0"], "d2")
    monkeypatch.setattr(rig.selection, "distrust", refuse)
    rig.submit(Worse("affine", "the engine crashed", go_back=True))
    assert rig.serving.served == {"affine": "1.0.0"}


def test_only_pinned_bundles_and_their_blobs_are_kept(rig: Rig, bundles: dict[str, Path]) -> None:
    for number, version in enumerate(bundles):
        rig.install(bundles[version], f"d{number}")
    kept = {folder.name for folder in (rig.config.data_dir / "models" / "affine" / "bundles").iterdir()}
    pinned = [check_file(bundles[version]) for version in ("2.0.0", "3.0.0")]
    assert kept == {bundle.digest[7:19] for bundle in pinned}
    blobs = {"sha256:" + path.name for path in (rig.config.data_dir / "blobs" / "sha256").iterdir()}
    assert blobs == {blob for bundle in pinned for blob in (bundle.digest, *bundle.blobs())}


@pytest.mark.parametrize("full_at", range(1, 40))
def test_a_disk_that_fills_up_at_any_write_never_costs_what_serves(
    tmp_path: Path, bundles: dict[str, Path], full_at: int
) -> None:
    rig = Rig(tmp_path / "data")
    rig.boot()
    rig.install(bundles["1.0.0"], "d1")
    rig.executor.close()
    disk = FullDisk(full_at)
    rig.restart(disk)
    rig.boot()
    rig.install(bundles["2.0.0"], "d2")
    model = rig.model()
    assert model.active is not None
    assert model.active.version == rig.serving.served["affine"]
    if model.active.version == "1.0.0":
        assert model.deployment is not None
        assert (model.deployment.error_code, model.deployment.wish.deployment) == ("no_space", "d2")
    disk.is_full = False
    rig.restart()
    rig.boot()
    assert rig.serving.served["affine"] == rig.model().active.version  # type: ignore[union-attr]
