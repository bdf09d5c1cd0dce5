"""How long a deployment may stay in each state before it is given up as timed out. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from edge_contracts.deployment import IN_FLIGHT, DeploymentState
from fleet.errors import InvalidRollout

DEFAULT_S: Mapping[DeploymentState, float] = {
    DeploymentState.QUEUED: 1800.0,
    DeploymentState.DOWNLOADING: 3600.0,
    DeploymentState.VERIFYING: 900.0,
    DeploymentState.INSTALLING: 1800.0,
    DeploymentState.PROBING: 1800.0,
    DeploymentState.TRIAL: 1800.0,
}


def check(deadlines_s: Mapping[str, float]) -> dict[str, float]:
    """Return them. Raises InvalidRollout for a state that has no deadline or a number that is none."""
    for state, seconds in deadlines_s.items():
        if DeploymentState(state) not in IN_FLIGHT:
            known = ", ".join(sorted(item.value for item in IN_FLIGHT))
            raise InvalidRollout("deadlines_s", f"{state[:40]!r} is none of {known}")
        if not (math.isfinite(seconds) and seconds > 0):
            raise InvalidRollout(f"deadlines_s.{state}", f"{seconds:g} is not a number of seconds > 0")
    return dict(deadlines_s)


def longest_s(state: DeploymentState, deadlines_s: Mapping[str, float], soak_s: float | None) -> float:
    """Seconds that ``state`` may last; a trial may last its soak on top."""
    seconds = deadlines_s.get(state.value, DEFAULT_S.get(state, 1800.0))
    return seconds + (soak_s or 0.0 if state is DeploymentState.TRIAL else 0.0)
