"""What selection is asked for, and the means it is given."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.hardware.probers.memory import MemoryProber
from agent.hardware.sysfs import this_machine
from agent.inference.bundle_folder import BundleFolder
from edge_contracts.capabilities import Capabilities
from edge_contracts.evidence import OptionValue

OBJECTIVES = ("latency", "throughput", "memory")


@dataclass(frozen=True)
class SelectionRequest:
    """One choice to make.

    device: as probed now, with the runtimes' facts. budget_cpus, affinity: what the model will be served with; trials
    run with the same. objective: one of OBJECTIVES. race_budget_s: time for the whole choice; when it is short the
    best of what was measured is chosen, and the evidence says so. max_drop: accepted loss on the goldens.
    """

    folder: BundleFolder
    device: Capabilities
    budget_cpus: float
    affinity: frozenset[int] | None = None
    objective: str = "latency"
    race_budget_s: float = 30.0
    max_drop: float = 0.01


@dataclass(frozen=True)
class TrialLimits:
    """After these a trial counts as hung. ``judge_s``: time for the goldens, of which at least 8 are always judged."""

    open_s: float = 60.0
    judge_s: float = 20.0
    run_s: float = 30.0
    close_s: float = 3.0
    reserve_mb: int = 64


@dataclass(frozen=True)
class RaceView:
    """What is to be seen of a choice as it runs. lines: (name, status, p90 in ms or None), best first."""

    stage: str
    lines: tuple[tuple[str, str, float | None], ...]
    rounds: int
    elapsed_s: float
    budget_s: float


def memory_available_mb() -> int | None:
    """Memory in MiB that a new process may take now, control groups included."""
    return MemoryProber().probe(this_machine()).available_mb


def _ignore(what: object) -> None:
    del what


def _ignore_samples(name: str, samples_us: Sequence[float]) -> None:
    del name, samples_us


def _never() -> bool:
    return False


@dataclass(frozen=True)
class SelectionTools:
    """cache_dir: kept between choices (choices, quarantine, compiled models). work_dir: scratch, emptied by the caller.

    progress: one plain line at a time. observe: the race as it runs, several times a second. record: a candidate's or
    baseline's times (microseconds) when a race is over. is_canceled: asked often; True ends the choice with
    SelectionCanceled. environ: the environment of trial processes; None: this process's own.
    """

    cache_dir: Path
    work_dir: Path
    clock: Callable[[], float] = time.monotonic
    progress: Callable[[str], None] = _ignore
    observe: Callable[[RaceView], None] = _ignore
    record: Callable[[str, Sequence[float]], None] = _ignore_samples
    is_canceled: Callable[[], bool] = _never
    limits: TrialLimits = field(default_factory=TrialLimits)
    environ: Mapping[str, str] | None = None
    available_mb: Callable[[], int | None] = memory_available_mb
    seed: int = 0


@dataclass(frozen=True)
class Candidate:
    """One way to serve: a laid-out bundle, one of its variants, the options of its backend."""

    folder: BundleFolder
    variant: str
    options: Mapping[str, OptionValue]
