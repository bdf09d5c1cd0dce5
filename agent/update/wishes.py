"""Pure: what the fleet's whole wish means for each model, given what was wished before."""

from __future__ import annotations

import logging

from agent.errors import UpdateError
from agent.update.records import LOCAL, DeviceState, Wish
from edge_contracts.errors import MalformedMessage
from edge_contracts.messages import Desired, Policy
from edge_contracts.names import bundle_name, device_name, digest

_log = logging.getLogger(__name__)


def rollback_wish(state: DeviceState, name: str | None, deployment: str) -> tuple[str, Wish]:
    """Go back by hand: to the last good bundle, or to none where there is none. Raises UpdateError."""
    chosen = name if name is not None else state.last_changed
    model = state.models.get(chosen) if chosen is not None else None
    if chosen is None or model is None or (model.active is None and model.last_good is None):
        raise UpdateError("internal", f"{name or 'this device'}: nothing is installed that could be rolled back")
    back, version = model.last_good, model.active.version if model.active is not None else "nothing"
    why = f"rolled back by hand from {version}" + ("" if back is not None else ": there was nothing before it")
    return chosen, Wish(
        deployment=deployment, version=back.version if back is not None else None,
        digest=back.digest if back is not None else None, origin=LOCAL, why=why,
        policy=Policy(allow_unsigned=back is not None and not back.signed),
    )  # fmt: skip


def wishes_of(desired: Desired, state: DeviceState) -> list[tuple[str, Wish]]:
    """New wishes only: the same wish twice gives nothing, nor does one older than the newest seen."""
    if state.desired_version is not None and desired.version < state.desired_version:
        return []
    wishes: list[tuple[str, Wish]] = []
    for name, wanted in desired.models.items():
        try:
            bundle_name(name), digest(wanted.digest), device_name(wanted.deployment, "deployment")
        except MalformedMessage as error:
            _log.warning("desired model %.80r is ignored: %s", name, error)
            continue
        if state.model(name).wished != wanted.deployment:
            wish = Wish(
                deployment=wanted.deployment, version=wanted.version, digest=wanted.digest, policy=wanted.policy
            )
            wishes.append((name, wish))
    for name, model in state.models.items():
        if name not in desired.models and model.wished is not None:
            wishes.append((name, Wish(deployment=f"remove-{desired.version}", version=None, digest=None)))
    return wishes
