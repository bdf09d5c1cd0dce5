"""A rollout: which devices get which bundle in which waves, and the table of its states. Pure.

A target is one deployment on one device within a rollout. Its state only moves forward and never leaves a terminal
state; a retry or a roll back is a target of its own.
"""

from __future__ import annotations

import enum

import msgspec

from edge_contracts.deployment import FAILURES, TERMINAL, DeploymentState
from edge_contracts.messages import BundleRef, Policy
from fleet.domain.targeting import Selector
from fleet.domain.wave import TAIL_POLICY, WavePolicy, WaveState
from fleet.errors import NotAllowedNow


class RolloutState(str, enum.Enum):
    """ROLLING_BACK: devices are being sent back; then the rollout is PAUSED (one wave) or ROLLED_BACK (all)."""

    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    ROLLING_BACK = "rolling_back"
    SUCCEEDED = "succeeded"
    ABORTED = "aborted"
    ROLLED_BACK = "rolled_back"


class RolloutEvent(str, enum.Enum):
    """What can happen to a rollout: an operator's verb or a verdict of the machine."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"
    ROLLBACK = "rollback"
    ALL_DONE = "finish"
    WAVE_BACK = "end the wave's roll back of"
    ALL_BACK = "end the roll back of"


S, E = RolloutState, RolloutEvent
_TABLE: dict[tuple[RolloutState, RolloutEvent], RolloutState] = {
    (S.DRAFT, E.START): S.RUNNING,
    (S.DRAFT, E.ABORT): S.ABORTED,
    (S.RUNNING, E.PAUSE): S.PAUSED,
    (S.RUNNING, E.ABORT): S.ABORTED,
    (S.RUNNING, E.ROLLBACK): S.ROLLING_BACK,
    (S.RUNNING, E.ALL_DONE): S.SUCCEEDED,
    (S.PAUSED, E.RESUME): S.RUNNING,
    (S.PAUSED, E.ABORT): S.ABORTED,
    (S.PAUSED, E.ROLLBACK): S.ROLLING_BACK,
    (S.SUCCEEDED, E.ROLLBACK): S.ROLLING_BACK,
    (S.ABORTED, E.ROLLBACK): S.ROLLING_BACK,
    (S.ROLLING_BACK, E.WAVE_BACK): S.PAUSED,
    (S.ROLLING_BACK, E.ALL_BACK): S.ROLLED_BACK,
    (S.ROLLING_BACK, E.ABORT): S.ABORTED,
}
del S, E

VERBS = {"start": RolloutEvent.START, "pause": RolloutEvent.PAUSE, "resume": RolloutEvent.RESUME,
         "abort": RolloutEvent.ABORT, "rollback": RolloutEvent.ROLLBACK}  # fmt: skip
"""The verbs of an operator."""
ACTIVE = frozenset({RolloutState.RUNNING, RolloutState.ROLLING_BACK})
"""States in which the machine acts by itself."""
FINAL = frozenset({RolloutState.SUCCEEDED, RolloutState.ABORTED, RolloutState.ROLLED_BACK})


def after(state: RolloutState, event: RolloutEvent, what: str = "this rollout") -> RolloutState:
    """The next state. Raises NotAllowedNow when ``event`` has no place in ``state``."""
    try:
        return _TABLE[state, event]
    except KeyError:
        raise NotAllowedNow(event.value, what, state.value) from None


class TargetKind(str, enum.Enum):
    """INSTALL brings the rollout's bundle; BACK brings what the device had before, in a rollout that goes back."""

    INSTALL = "install"
    BACK = "back"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One deployment on one device. ``state`` None: not asked yet. Times in Unix ms, None: not yet.

    wave: position in ``Rollout.waves``, its length for the tail; first_wave: before it became a straggler.
    previous: what the device served when it was asked (None: nothing). desired_version: of the wish that asked it.
    regressed: it committed and fell back later.
    """

    rollout: str
    device: str
    deployment: str
    wave: int
    first_wave: int
    position: int = 0
    kind: TargetKind = TargetKind.INSTALL
    attempt: int = 1
    state: DeploymentState | None = None
    reason: str | None = None
    error_code: str | None = None
    previous: BundleRef | None = None
    desired_version: int | None = None
    asked_ms: int | None = None
    contacted_ms: int | None = None
    changed_ms: int | None = None
    straggler: bool = False
    regressed: str | None = None

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def in_flight(self) -> bool:
        """Asked and not ended."""
        return self.state is not None and not self.terminal

    @property
    def failed(self) -> bool:
        return self.state in FAILURES or (self.state is DeploymentState.COMMITTED and self.regressed is not None)

    @property
    def succeeded(self) -> bool:
        return self.state is DeploymentState.COMMITTED and self.regressed is None


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """A wave as it stands. ``why`` explains its state. ``forgiven``: failures that the operator accepted by resuming;
    they have left the counts."""

    policy: WavePolicy
    state: WaveState = WaveState.PENDING
    why: str | None = None
    opened_ms: int | None = None
    judged_ms: int | None = None
    forgiven: int = 0


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a rollout; its targets are stored beside it.

    waves: the planned ones. tail: takes late devices.
    why: why it is in its state. matched: devices the selector found at start. rollback_wave: which wave goes back, None
    for all. deadlines_s: longest stay by deployment state, over the defaults of ``deadlines.py``.
    """

    id: str
    name: str
    model: str
    version: str
    digest: str
    selector: Selector
    waves: tuple[Wave, ...]
    created_ms: int
    tail: Wave = Wave(policy=TAIL_POLICY)
    max_in_flight: int = 100
    policy: Policy = Policy()
    deadlines_s: dict[str, float] = {}
    tail_expires_s: float = 7 * 86400.0
    state: RolloutState = RolloutState.DRAFT
    why: str | None = None
    matched: int | None = None
    rollback_wave: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    revision: int = 0

    @property
    def all_waves(self) -> tuple[Wave, ...]:
        """The planned waves and the tail."""
        return (*self.waves, self.tail)
