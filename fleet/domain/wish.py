"""What the server wishes a device to serve, one row per model; ``desired`` is made of all of a device's rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edge_contracts.messages import Desired, DesiredModel, Policy
from fleet.domain.device import Device
from fleet.domain.rollout import Rollout, Target, TargetKind


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a device's wish."""

    device: str
    model: str
    deployment: str
    version: str
    digest: str
    policy: Policy


def wanted(rollout: Rollout, target: Target) -> Wish | None:
    """The wish that asks ``target``; None: the model is to be removed (there was none before)."""
    if target.kind is TargetKind.INSTALL:
        return Wish(
            device=target.device,
            model=rollout.model,
            deployment=target.deployment,
            version=rollout.version,
            digest=rollout.digest,
            policy=rollout.policy,
        )
    return _back_to_previous(rollout, target, target.deployment)


def withdrawn(rollout: Rollout, target: Target, device: Device, current: Wish | None) -> Wish | None:
    """The wish once ``target`` is no longer wanted: what the device served before; None: nothing.

    A wish of another deployment is left as it is. Where the device never began, the truth is unchanged and the device
    has nothing to do.
    """
    if current is not None and current.deployment != target.deployment:
        return current
    serving = device.serving(rollout.model)
    if target.previous is None and serving is not None and serving.digest != rollout.digest:
        return _back_to_previous(
            rollout, msgspec.structs.replace(target, previous=serving), f"{target.deployment}-back"
        )
    return _back_to_previous(rollout, target, f"{target.deployment}-back")


def desired(device: Device, wishes: Iterable[Wish]) -> Desired:
    """The message for the device."""
    models = {
        wish.model: DesiredModel(
            deployment=wish.deployment, version=wish.version, digest=wish.digest, policy=wish.policy
        )
        for wish in wishes
    }
    return Desired(version=device.desired_version, models=models)


def _back_to_previous(rollout: Rollout, target: Target, deployment: str) -> Wish | None:
    if target.previous is None:
        return None
    return Wish(
        device=target.device,
        model=rollout.model,
        deployment=deployment,
        version=target.previous.version,
        digest=target.previous.digest,
        policy=Policy(soak_s=0.0, allow_unsigned=rollout.policy.allow_unsigned),
    )
