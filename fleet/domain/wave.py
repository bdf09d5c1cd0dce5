"""One wave of a rollout: its policy, its counts, and the verdict on it. Pure.

Comparisons, exactly: a wave succeeds when ``succeeded / denominator >= success_threshold_pct`` and fails when
``failed / denominator > error_threshold_pct``. ``min_executed`` only holds back an early verdict: once every device of
the wave is settled it is judged on what there is.
"""

from __future__ import annotations

import enum
import math
import re
from fractions import Fraction

import msgspec

from fleet.errors import InvalidRollout

_SIZE = re.compile(r"(?P<number>[0-9]{1,7})(?P<percent>%?)")
DEFAULT_STRAGGLER_AFTER_S = 600.0


class Denominator(str, enum.Enum):
    """What percentages are taken of: all devices of the wave, or those that have answered."""

    TARGETED = "targeted"
    CONTACTED = "contacted"


class SuccessAction(str, enum.Enum):
    """What follows a wave that succeeded."""

    NEXT = "next"
    PAUSE = "pause"


class ErrorAction(str, enum.Enum):
    """What follows a wave that failed."""

    PAUSE = "pause"
    ABORT = "abort"
    ROLLBACK_WAVE = "rollback_wave"
    ROLLBACK_ALL = "rollback_all"


class WaveState(str, enum.Enum):
    """PENDING: not begun. RUNNING: devices are asked. SOAKING: succeeded, watched for ``soak_s``. SKIPPED: empty.

    ACCEPTED: failed, and the operator resumed all the same.
    """

    PENDING = "pending"
    RUNNING = "running"
    SOAKING = "soaking"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    ACCEPTED = "accepted"


DONE = frozenset({WaveState.SUCCEEDED, WaveState.SKIPPED, WaveState.ACCEPTED})
"""After these the next wave may begin."""
OPEN = frozenset({WaveState.RUNNING, WaveState.SOAKING, WaveState.SUCCEEDED, WaveState.ACCEPTED})
"""Begun and not failed: devices of such a wave are asked, while the rollout runs."""


class Verdict(str, enum.Enum):
    """What the counts say."""

    UNDECIDED = "undecided"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOTHING_EXECUTED = "nothing_executed"


class WavePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large a wave is and when it counts as done.

    size: a count ("1") or a share of all targeted devices ("50%", rounded up), at most what earlier waves left.
    soak_s: seconds a succeeded wave is watched before the next begins. straggler_after_s: a device that has not
    answered that long after the wave began (or after it was asked) joins the tail wave.
    """

    size: str = "100%"
    success_threshold_pct: float = 100.0
    error_threshold_pct: float = 0.0
    min_executed: int = 1
    denominator: Denominator = Denominator.TARGETED
    soak_s: float = 0.0
    success_action: SuccessAction = SuccessAction.NEXT
    error_action: ErrorAction = ErrorAction.PAUSE
    straggler_after_s: float = DEFAULT_STRAGGLER_AFTER_S


TAIL_POLICY = WavePolicy(success_threshold_pct=0.0, error_threshold_pct=50.0, min_executed=2)
"""Default of the tail wave: late devices do not decide over a rollout unless most of them fail."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one wave. Stragglers and withdrawn devices (superseded, canceled, sent back) are in none but their own.

    targeted: in the wave. contacted: answered. executed = succeeded + failed. succeeded: committed and not regressed.
    failed: ended in a failure state, or regressed after the commit. in_flight: asked and not settled.
    """

    targeted: int = 0
    contacted: int = 0
    succeeded: int = 0
    failed: int = 0
    in_flight: int = 0
    withdrawn: int = 0
    stragglers: int = 0

    @property
    def executed(self) -> int:
        return self.succeeded + self.failed

    @property
    def settled(self) -> bool:
        """Every device of the wave has ended, left, or is a straggler."""
        return self.executed == self.targeted


def check_policy(policy: WavePolicy, where: str) -> WavePolicy:
    """Return the policy. Raises InvalidRollout naming ``where`` and the field."""
    wave_size(policy.size, 100, where)
    for field in ("success_threshold_pct", "error_threshold_pct"):
        if not 0 <= getattr(policy, field) <= 100:
            raise InvalidRollout(f"{where}.{field}", f"{getattr(policy, field):g} is not between 0 and 100")
    for field in ("soak_s", "straggler_after_s"):
        value = getattr(policy, field)
        if not (math.isfinite(value) and value >= 0):
            raise InvalidRollout(f"{where}.{field}", f"{value:g} is not a number of seconds >= 0")
    if policy.min_executed < 0:
        raise InvalidRollout(f"{where}.min_executed", f"{policy.min_executed} is not >= 0")
    return policy


def wave_size(size: str, targets: int, where: str = "wave") -> int:
    """Devices that ``size`` means among ``targets``; a share is rounded up. Raises InvalidRollout."""
    match = _SIZE.fullmatch(size)
    number = int(match["number"]) if match else 0
    if match is None or number == 0 or (match["percent"] and number > 100):
        raise InvalidRollout(f"{where}.size", f'{size[:40]!r} is neither a count like "1" nor a share like "50%"')
    return min(targets, -(-targets * number // 100) if match["percent"] else number)


def split(sizes: list[str], targets: int) -> list[int]:
    """How many devices each wave takes, in order, each at most what is left. The sum may be under ``targets``."""
    counts: list[int] = []
    for position, size in enumerate(sizes):
        counts.append(min(wave_size(size, targets, f"waves[{position}]"), targets - sum(counts)))
    return counts


def judge(policy: WavePolicy, tally: Tally) -> tuple[Verdict, str]:
    """The verdict on a begun wave with at least one device, and why, in plain words."""
    if tally.settled and tally.executed == 0:
        return Verdict.NOTHING_EXECUTED, "nothing executed: no device of this wave ran the deployment to an end"
    if not tally.settled and tally.executed < max(1, policy.min_executed):
        return Verdict.UNDECIDED, f"{tally.executed} of {tally.targeted} ended; a verdict needs {policy.min_executed}"
    base = tally.targeted if policy.denominator is Denominator.TARGETED else tally.contacted
    error_pct, success_pct = share_pct(tally.failed, base), share_pct(tally.succeeded, base)
    if error_pct > Fraction(policy.error_threshold_pct):
        return Verdict.FAILED, (
            f"{tally.failed} of {base} {policy.denominator.value} devices failed "
            f"({float(error_pct):.4g} %, more than {policy.error_threshold_pct:g} %)"
        )
    if success_pct >= Fraction(policy.success_threshold_pct):
        return Verdict.SUCCEEDED, f"{tally.succeeded} of {base} {policy.denominator.value} devices succeeded"
    if tally.settled:
        return Verdict.FAILED, (
            f"only {tally.succeeded} of {base} {policy.denominator.value} devices succeeded "
            f"({float(success_pct):.4g} %, less than {policy.success_threshold_pct:g} %)"
        )
    return Verdict.UNDECIDED, f"{tally.succeeded} of {base} succeeded so far"


def share_pct(part: int, whole: int) -> Fraction:
    """Exact percentage, so that 100 % is never missed by rounding; 0 of 0 is 0."""
    return Fraction(100 * part, whole) if whole else Fraction(0)
