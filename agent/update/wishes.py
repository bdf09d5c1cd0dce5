"""Pure: what the fleet's whole wish means for each model, given what was wished before."""

from __future__ import annotations

import logging

from agent.update.records import DeviceState, Wish
from edge_contracts.errors import MalformedMessage
from edge_contracts.messages import Desired
from edge_contracts.names import bundle_name, device_name, digest

_log = logging.getLogger(__name__)


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
