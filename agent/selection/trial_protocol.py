"""What passes between selection and one trial process (``python -m agent.trial REQUEST.json``).

Files: REQUEST.json goes in; RESULT (named by the request) comes out, written anew at every phase, so that after
any death of the process it tells how far the trial came.

Pipes: after phase "ready" the trial prints one JSON line per command line read from stdin:

    "run N W"    -> RunReply: W untimed, then N timed inferences on the golden inputs in turn
    "close"      -> the trial ends with exit code 0; so does the end of stdin

Before that it prints one JSON line, the TrialResult, when it is ready or has failed.
"""

from __future__ import annotations

import enum

import msgspec

from edge_contracts.bundle import Accuracy
from edge_contracts.evidence import OptionValue


class Phase(str, enum.Enum):
    """How far a trial came."""

    STARTING = "starting"
    OPENING = "opening"
    JUDGING = "judging"
    WARMING = "warming"
    READY = "ready"
    CLOSED = "closed"
    FAILED = "failed"


class Fault(str, enum.Enum):
    """Why a trial that ended by itself failed. REFUSED: the runtime said no. WRONG: answers off the goldens."""

    NONE = "none"
    REFUSED = "refused"
    FELL_BACK = "fell_back"
    WRONG = "wrong"


class TrialRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``parent_pid``: the trial ends when that process is no longer its parent. Sizes in MiB, times in seconds."""

    folder: str
    variant: str
    options: dict[str, OptionValue]
    result_file: str
    parent_pid: int
    max_drop: float
    judge: bool = True
    judge_budget_s: float = 20.0
    affinity: list[int] | None = None
    cache_dir: str | None = None
    warm_runs: int = 5


class TrialResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``phase`` with ``fault`` and ``reason`` when FAILED. ``typical_us``: median of the warm-up runs."""

    phase: Phase
    fault: Fault = Fault.NONE
    reason: str = ""
    accuracy: Accuracy | None = None
    provider: str | None = None
    runtime_version: str | None = None
    open_ms: float = 0.0
    typical_us: float = 0.0
    peak_rss_mb: float = 0.0


class RunReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Microseconds per sample (option "batch" puts several into one inference), conversion included.

    error: the run failed with that reason.
    """

    times_us: list[float]
    peak_rss_mb: float = 0.0
    error: str | None = None
