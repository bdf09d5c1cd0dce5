from __future__ import annotations

from typing import Any

from edge_contracts.deployment import DeploymentState as S
from edge_contracts.messages import ActiveModel, BundleRef, Reported, ReportedModel
from fleet.domain.observation import observe
from fleet.domain.rollout import Target, TargetKind
from tests.simulators.fleet_client import evidence

NEW, OLD = "sha256:new", "sha256:old"
ASKED = Target(rollout="r", device="d", deployment="r-1", wave=0, first_wave=0, state=S.QUEUED, asked_ms=1,
               changed_ms=1, desired_version=5)  # fmt: skip


def report(
    state: S, serving: str | None = None, *, deployment: str = "r-1", read: int | None = 5, **more: Any
) -> Reported:
    active = ActiveModel(version="1", digest=serving, variant="v", runtime="r", precision="p") if serving else None
    entry = ReportedModel(deployment=deployment, state=state, active=active, **more)
    return Reported(version=1, session=1, models={"digits": entry}, desired_version=read)


def seen(target: Target, reported: Reported) -> Target:
    return observe(target, "digits", NEW, reported, 100)


def test_a_commit_counts_when_the_rollouts_bundle_really_serves() -> None:
    after = seen(ASKED, report(S.COMMITTED, NEW))
    assert after.succeeded
    assert after.contacted_ms == 100


def test_a_commit_while_another_bundle_serves_is_a_failure() -> None:
    after = seen(ASKED, report(S.COMMITTED, OLD))
    assert after.state is S.FAILED
    assert after.reason == "reported committed, but sha256:old serves"


def test_a_report_about_another_deployment_only_tells_that_the_wish_was_read() -> None:
    after = seen(ASKED, report(S.FAILED, OLD, deployment="x"))
    assert after.state is S.QUEUED
    assert after.contacted_ms == 100
    assert seen(ASKED, report(S.FAILED, OLD, deployment="x", read=4)) is ASKED


def test_a_state_of_a_newer_agent_is_contact_and_no_change_of_state() -> None:
    after = seen(ASKED, report(S.UNKNOWN))
    assert (after.state, after.contacted_ms) == (S.QUEUED, 100)


def test_the_same_report_twice_changes_nothing() -> None:
    once = seen(ASKED, report(S.TRIAL, reason="soaking"))
    assert seen(once, report(S.TRIAL, reason="soaking")) is once


def test_an_end_never_changes() -> None:
    failed = seen(ASKED, report(S.FAILED, OLD, reason="golden"))
    assert seen(failed, report(S.COMMITTED, NEW)) is failed


def test_a_fall_back_after_the_commit_is_an_error_until_the_device_closes_it() -> None:
    done = seen(ASKED, report(S.COMMITTED, NEW))
    fallen = seen(done, report(S.COMMITTED, OLD, regressed="engine crashed 3 times"))
    assert fallen.state is S.COMMITTED
    assert fallen.failed
    assert fallen.regressed == "engine crashed 3 times"
    assert seen(fallen, report(S.COMMITTED, NEW)).succeeded


def test_what_a_later_deployment_does_is_no_regression_of_this_one() -> None:
    done = seen(ASKED, report(S.COMMITTED, NEW))
    assert seen(done, report(S.FAILED, NEW, deployment="later")) is done


def test_going_back_is_done_when_the_former_bundle_serves_and_the_wish_was_read() -> None:
    back = Target(rollout="r", device="d", deployment="r-1-back", wave=0, first_wave=0, kind=TargetKind.BACK,
                  state=S.QUEUED, asked_ms=1, desired_version=6,
                  previous=BundleRef(version="0", digest=OLD))  # fmt: skip
    assert seen(back, report(S.COMMITTED, NEW)) is back
    assert seen(back, report(S.COMMITTED, NEW, read=6)).state is S.QUEUED
    assert seen(back, report(S.COMMITTED, OLD, read=6)).state is S.COMMITTED
    assert seen(back, report(S.FAILED, NEW, deployment="r-1-back", read=6)).state is S.FAILED


def test_going_back_to_nothing_is_done_when_nothing_serves() -> None:
    back = Target(rollout="r", device="d", deployment="r-1-back", wave=0, first_wave=0, kind=TargetKind.BACK,
                  state=S.QUEUED, asked_ms=1, desired_version=6)  # fmt: skip
    empty = Reported(version=9, session=1, models={}, desired_version=6)
    assert seen(back, empty).state is S.COMMITTED


def test_the_reason_of_a_commit_tells_the_choice_in_short() -> None:
    told = evidence()
    after = seen(ASKED, report(S.COMMITTED, NEW, reason=told.why, evidence=told))
    assert after.reason == "openvino int8: 1.84x ORT default"
