"""Seams of the update machine to the rooms that do the work; wired in agent.composition, simulated in tests.

Every effect is repeatable: done twice, or again after a power cut in its middle, it leads to the same end. Effects
block and run on the executor's thread. They look at ``interrupt`` now and then and raise UpdateInterrupted when it
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.inference.bundle_folder import BundleFolder
from edge_contracts.evidence import ChoiceEvidence, OptionValue


@dataclass(frozen=True)
class Proving:
    """How a deployment is to be proven: the fleet's policy with the device's own configuration filled in."""

    soak_s: float
    max_p90_ratio: float
    slo_p95_ms: float | None
    race_budget_s: float
    objective: str
    max_drop: float


@dataclass(frozen=True)
class Placed:
    """A variant of a bundle that lies here, with the options it is to run with."""

    name: str
    version: str
    digest: str
    folder: BundleFolder
    variant: str
    options: Mapping[str, OptionValue]
    signed: bool
    evidence: ChoiceEvidence | None
    slo_p95_ms: float | None = None


@dataclass(frozen=True)
class Proof:
    """``ok``: no worse than what it replaces. ``text``: one line with the figures. ``code``: for the report if not."""

    ok: bool
    text: str
    code: str = "slower"


@dataclass(frozen=True)
class Watched:
    """How serving went during a soak. ``fault`` None: well; else one line, with a ``code`` for the report."""

    fault: str | None = None
    code: str = "crash"


Interrupt = Callable[[], bool]
Progress = Callable[[str], None]


class Selection(Protocol):
    """Chooses by measurement, in trial processes."""

    def choose(
        self, folder: BundleFolder, proving: Proving, progress: Progress, interrupt: Interrupt
    ) -> ChoiceEvidence:
        """Which variant and options are right and fastest here. Raises NoCandidate, UpdateInterrupted."""

    def prove_no_worse(
        self, new: Placed, old: Placed, proving: Proving, progress: Progress, interrupt: Interrupt
    ) -> Proof:
        """Interleaved pairs of both. Raises TrialError, UpdateInterrupted."""

    def distrust(self, placed: Placed, reason: str) -> None:
        """It was chosen and proven, and its engine keeps dying: keep it out of later choices on this device."""


class Serving(Protocol):
    """What answers requests. Without a daemon there is none: NotServing below."""

    def switch_to(self, placed: Placed) -> str | None:
        """Serve this from now on; what served before does so until it is warm. Returns the effective provider.

        Raises ServingError; then what served before still does.
        """

    def remove(self, name: str) -> None:
        """Serve this model no more. Does nothing when it is not served. Raises ServingError."""

    def watch(self, placed: Placed, seconds: float, interrupt: Interrupt) -> Watched:
        """Look on while it serves: crashes, fall-backs, errors, SLO. Raises UpdateInterrupted."""


class NotServing:
    """`mindie install` without a daemon: the daemon loads what is active when it starts."""

    def switch_to(self, placed: Placed) -> str | None:
        return placed.evidence.chosen.provider if placed.evidence else None

    def remove(self, name: str) -> None:
        del name

    def watch(self, placed: Placed, seconds: float, interrupt: Interrupt) -> Watched:
        del placed, seconds, interrupt
        return Watched()
