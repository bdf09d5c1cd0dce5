"""The states of one deployment on one device, as device and server both name them."""

from __future__ import annotations

import enum


class DeploymentState(str, enum.Enum):
    """``UNKNOWN`` is what a state from a newer peer decodes to; it is never sent."""

    QUEUED = "queued"
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"
    INSTALLING = "installing"
    PROBING = "probing"
    TRIAL = "trial"
    COMMITTED = "committed"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"
    ROLLBACK_FAILED = "rollback_failed"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    SUPERSEDED = "superseded"
    CANCELED = "canceled"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> DeploymentState:
        return cls.UNKNOWN


IN_FLIGHT = frozenset(
    {
        DeploymentState.QUEUED,
        DeploymentState.DOWNLOADING,
        DeploymentState.VERIFYING,
        DeploymentState.INSTALLING,
        DeploymentState.PROBING,
        DeploymentState.TRIAL,
    }
)
TERMINAL = frozenset(set(DeploymentState) - IN_FLIGHT - {DeploymentState.UNKNOWN})
FAILURES = frozenset(
    {
        DeploymentState.FAILED,
        DeploymentState.ROLLED_BACK,
        DeploymentState.ROLLBACK_FAILED,
        DeploymentState.REJECTED,
        DeploymentState.TIMED_OUT,
    }
)
"""Terminal states that count as errors in a rollout. SUPERSEDED and CANCELED were somebody's will and do not."""
