"""Pure: the device's state after an outcome or a new wish. The executor writes what comes out."""

from __future__ import annotations

import msgspec

from agent.update.machine import Event, after
from agent.update.records import FLEET, Deployment, DeviceState, HistoryEntry, Installed, ModelState, Wish
from agent.update.steps import Outcome
from edge_contracts.deployment import DeploymentState

replace = msgspec.structs.replace
KEEPS_STATE = frozenset({Event.POWER_RETURNED})


def with_model(state: DeviceState, name: str, model: ModelState) -> DeviceState:
    """``state`` with that model changed; its version grows."""
    return replace(
        state, models={**state.models, name: model}, version=state.version + 1, last_changed=name
    )  # fmt: skip


def queued(state: DeviceState, name: str, wish: Wish, now_ms: int) -> DeviceState:
    """A new deployment waits. The one before must have ended."""
    model = state.model(name)
    deployment = Deployment(wish=wish, state=DeploymentState.QUEUED, queued_ms=now_ms, since_ms=now_ms)
    wished = model.wished
    if wish.origin == FLEET:
        wished = wish.deployment if wish.digest is not None else None
    return with_model(state, name, replace(model, deployment=deployment, wished=wished))


def moved(state: DeviceState, name: str, outcome: Outcome, now_ms: int) -> DeviceState:
    """The deployment of ``name`` after an outcome, and, when that commits, the bundles after it."""
    model = state.model(name)
    deployment = model.deployment
    assert deployment is not None
    moved_to = replace(
        deployment,
        state=after(deployment.state, outcome.event),
        since_ms=now_ms,
        reason=outcome.reason if outcome.reason is not None else deployment.reason,
        error_code=outcome.code,
        restores=deployment.restores or outcome.event is Event.PINNED,
        power_returns=deployment.power_returns + 1 if outcome.event in KEEPS_STATE else 0,
        evidence=outcome.evidence or deployment.evidence,
    )
    model = replace(model, deployment=moved_to)
    if moved_to.state is DeploymentState.COMMITTED:
        model = committed(model, outcome.active)
    return with_model(state, name, model)


def committed(model: ModelState, active: Installed | None) -> ModelState:
    """``active`` serves from now on; what it replaces is the last good, unless we went back to it."""
    deployment, replaced = model.deployment, model.active
    assert deployment is not None
    last_good = model.last_good
    if active is None or deployment.restores:
        last_good = None
    elif replaced is not None and replaced.digest != active.digest:
        last_good = replaced
    if active is not None and replaced is not None and replaced.digest == active.digest:
        active = replace(active, deployment=deployment.wish.deployment, origin=deployment.wish.origin)
    regressed = model.regressed if deployment.wish.automatic else None
    return replace(model, active=active, last_good=last_good, fault=None, regressed=regressed)


def history_entry(name: str, before: ModelState, after_it: Deployment) -> HistoryEntry:
    """The line for a deployment that has just ended."""
    return HistoryEntry(
        at_ms=after_it.since_ms, model=name, deployment=after_it.wish.deployment, version=after_it.wish.version,
        digest=after_it.wish.digest, state=after_it.state, origin=after_it.wish.origin, reason=after_it.reason,
        error_code=after_it.error_code, replaced=before.active.version if before.active is not None else None,
        variant=after_it.evidence.chosen.variant if after_it.evidence is not None else None,
    )  # fmt: skip
