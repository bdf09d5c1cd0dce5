"""What a device's report means for a target. Pure; the reported bundle is the truth, not what was sent."""

from __future__ import annotations

import msgspec

from edge_contracts.deployment import FAILURES, TERMINAL, DeploymentState
from edge_contracts.messages import Reported, ReportedModel
from fleet.domain.plain_words import shortened
from fleet.domain.rollout import Target, TargetKind


def observe(target: Target, model: str, digest: str, reported: Reported, now_ms: int) -> Target:
    """The target after the report; the same object when nothing about it changed.

    ``digest``: the rollout's bundle. A terminal state is never changed; a device that falls back after its commit is
    marked ``regressed``, and the mark goes when the device says so.
    """
    if target.state is None:
        return target
    entry = reported.models.get(model)
    if target.terminal:
        return _regression(target, digest, entry)
    target = _contact(target, entry, reported, now_ms)
    if target.kind is TargetKind.BACK:
        return _back(target, entry, now_ms)
    if entry is None or entry.deployment != target.deployment:
        return target
    return _install(target, digest, entry, now_ms)


def _contact(target: Target, entry: ReportedModel | None, reported: Reported, now_ms: int) -> Target:
    named = entry is not None and entry.deployment == target.deployment
    wished, read = target.desired_version, reported.desired_version
    heard = wished is not None and read is not None and read >= wished
    if target.contacted_ms is None and (named or heard):
        return msgspec.structs.replace(target, contacted_ms=now_ms, changed_ms=now_ms)
    return target


def _install(target: Target, digest: str, entry: ReportedModel, now_ms: int) -> Target:
    state, reason, code = entry.state, shortened(entry.reason, entry.evidence), entry.error_code
    serving = entry.active.digest if entry.active is not None else None
    if state is DeploymentState.COMMITTED and serving != digest:
        state, code = DeploymentState.FAILED, "digest"
        reason = f"reported committed, but {serving or 'nothing'} serves"
    return _moved(target, state, reason, code, now_ms)


def _back(target: Target, entry: ReportedModel | None, now_ms: int) -> Target:
    serving = entry.active.digest if entry is not None and entry.active is not None else None
    if target.contacted_ms is not None and serving == (target.previous.digest if target.previous else None):
        return _moved(target, DeploymentState.COMMITTED, "serves what it served before", None, now_ms)
    if entry is None or entry.deployment != target.deployment or entry.state is DeploymentState.COMMITTED:
        return target
    return _moved(target, entry.state, entry.reason, entry.error_code, now_ms)


def _moved(target: Target, state: DeploymentState, reason: str | None, code: str | None, now_ms: int) -> Target:
    if state is DeploymentState.UNKNOWN:  # a newer agent's state between two that we know
        return target
    if (state, reason, code) == (target.state, target.reason, target.error_code):
        return target
    changed_ms = now_ms if state is not target.state else target.changed_ms
    return msgspec.structs.replace(target, state=state, reason=reason, error_code=code, changed_ms=changed_ms)


def _regression(target: Target, digest: str, entry: ReportedModel | None) -> Target:
    """Only while the device still speaks of this deployment: what a later one does is no regression of this one."""
    if target.kind is TargetKind.BACK or target.state is not DeploymentState.COMMITTED:
        return target
    if entry is None or entry.deployment != target.deployment:
        return target
    regressed = entry.regressed
    if regressed is None and entry.state in TERMINAL and entry.state in FAILURES:
        regressed = entry.reason or entry.state.value
    if regressed is None and entry.active is not None and entry.active.digest != digest:
        regressed = f"serves {entry.active.version} instead"
    if regressed == target.regressed:
        return target
    return msgspec.structs.replace(target, regressed=regressed)
