"""Pure: the device's state as the fleet and `mindie status` see it."""

from __future__ import annotations

from typing import Any

from agent.update.records import Deployment, DeviceState, Installed, ModelState
from edge_contracts.deployment import DeploymentState
from edge_contracts.messages import ActiveModel, BundleRef, Reported, ReportedModel


def reported(state: DeviceState) -> Reported:
    """The whole truth. The session is the link's to fill in. A model that was removed and has no bundle is left out."""
    models = {
        name: _model(model) for name, model in state.models.items() if model.deployment is not None and not _gone(model)
    }
    return Reported(version=state.version, session=0, models=models, desired_version=state.desired_version)


def final_marks(state: DeviceState) -> frozenset[tuple[str, ...]]:
    """What must reach the server even if more happens before it can be told: ends of deployments, and regressions."""
    marks: set[tuple[str, ...]] = set()
    for name, model in state.models.items():
        if model.deployment is not None and not model.deployment.in_flight:
            marks.add((name, model.deployment.wish.deployment, model.deployment.state.value))
        if model.regressed is not None:
            marks.add((name, "regressed", model.regressed))
    return frozenset(marks)


def status_document(state: DeviceState, name: str | None, *, daemon: bool) -> dict[str, Any]:
    """`mindie status --json`: the top-level keys repeat the model ``name``, else the one last changed."""
    shown = name if name is not None else state.last_changed
    models = [_status(key, model) for key, model in sorted(state.models.items()) if not _gone(model)]
    chosen = next((entry for entry in models if entry["name"] == shown), None)
    if chosen is None and name is None and models:
        chosen = models[0]
    top = chosen or {
        "name": shown, "state": None, "active": None, "last_good": None, "in_flight": None, "healthy": True,
        "reason": None, "error_code": None, "regressed": None,
    }  # fmt: skip
    return {**top, "daemon": daemon, "desired_version": state.desired_version, "models": models}


def fleet_document(*, enrolled: bool, connected: bool, detail: str = "") -> dict[str, Any]:
    """`mindie status --json`, key "fleet". ``detail``: why an enrolled device is not connected, where that is known."""
    return {"enrolled": enrolled, "connected": connected, "detail": detail or None}


def _model(model: ModelState) -> ReportedModel:
    deployment = model.deployment
    assert deployment is not None
    wish, active = deployment.wish, model.active
    return ReportedModel(
        deployment=wish.deployment,
        state=deployment.state,
        reason=_reason(model, deployment),
        error_code=deployment.error_code,
        attempted=BundleRef(version=wish.version or "", digest=wish.digest) if wish.digest is not None else None,
        active=_active(active) if active is not None else None,
        last_good=_ref(model.last_good),
        healthy=model.healthy,
        regressed=model.regressed,
        evidence=deployment.evidence or (active.evidence if active is not None else None),
    )


def _reason(model: ModelState, deployment: Deployment) -> str | None:
    if model.fault is not None and deployment.state is DeploymentState.COMMITTED:
        return model.fault
    return deployment.reason


def _active(installed: Installed) -> ActiveModel:
    return ActiveModel(
        version=installed.version, digest=installed.digest, variant=installed.variant, runtime=installed.runtime,
        precision=installed.precision, options=installed.options, provider=installed.provider,
        target=installed.target, signed=installed.signed,
    )  # fmt: skip


def _ref(installed: Installed | None) -> BundleRef | None:
    return BundleRef(version=installed.version, digest=installed.digest) if installed is not None else None


def _gone(model: ModelState) -> bool:
    deployment = model.deployment
    return model.active is None and (
        deployment is None or (deployment.wish.digest is None and not deployment.in_flight)
    )  # fmt: skip


def _status(name: str, model: ModelState) -> dict[str, Any]:
    deployment = model.deployment
    return {
        "name": name,
        "state": deployment.state.value if deployment is not None else None,
        "active": _brief(name, model.active),
        "last_good": _brief(name, model.last_good),
        "in_flight": _in_flight(deployment),
        "healthy": model.healthy,
        "reason": _reason(model, deployment) if deployment is not None else None,
        "error_code": deployment.error_code if deployment is not None else None,
        "regressed": model.regressed,
    }


def _in_flight(deployment: Deployment | None) -> dict[str, Any] | None:
    if deployment is None or not deployment.in_flight:
        return None
    wish = deployment.wish
    return {
        "deployment": wish.deployment, "version": wish.version, "digest": wish.digest, "state": deployment.state.value,
    }  # fmt: skip


def _brief(name: str, installed: Installed | None) -> dict[str, Any] | None:
    if installed is None:
        return None
    return {
        "name": name, "version": installed.version, "digest": installed.digest, "variant": installed.variant,
        "runtime": installed.runtime, "precision": installed.precision, "options": installed.options,
        "provider": installed.provider, "signed": installed.signed, "deployment": installed.deployment,
    }  # fmt: skip
