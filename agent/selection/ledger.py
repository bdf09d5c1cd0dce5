"""What is known of every candidate while a choice is made, as the evidence will tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agent.selection.candidates import Entrant
from agent.selection.lanes import LiveLane, ReopenedLane
from agent.selection.statistics import quantile
from agent.selection.trial_pool import Opened, Rejected
from edge_contracts.evidence import CandidateEvidence, Latency

_ORDER = {"chosen": 0, "raced": 1, "halved": 2, "not_tried": 3, "refused": 4, "quarantined": 5}


class Ledger:
    """Lines by candidate name; each has one status at a time, the last one told.

    wrong, crashed, disturbed: names of those that answered wrongly, are in quarantine, were ended from outside.
    """

    def __init__(self, refused: Iterable[CandidateEvidence]) -> None:
        self._lines: dict[str, CandidateEvidence] = {line.name: line for line in refused}
        self.wrong: list[str] = []
        self.crashed: list[str] = []
        self.disturbed: list[str] = []

    def untried(self, entrant: Entrant, reason: str) -> None:
        """It was never measured."""
        self._lines.setdefault(entrant.name, entrant.evidence("not_tried", reason))

    def opened(self, opened: Opened) -> None:
        """It answered right."""
        result = opened.result
        self._lines[opened.entrant.name] = msgspec.structs.replace(
            opened.entrant.evidence("raced"), accuracy=result.accuracy, provider=result.provider,
            runtime_version=result.runtime_version, peak_rss_mb=result.peak_rss_mb,
        )  # fmt: skip

    def rejected(self, rejected: Rejected) -> None:
        """It was refused or is in quarantine."""
        name, result = rejected.entrant.name, rejected.result
        line = self._lines.get(name, rejected.entrant.evidence(rejected.status))
        self._lines[name] = msgspec.structs.replace(
            line, status=rejected.status, reason=rejected.reason,
            accuracy=result.accuracy if result is not None else line.accuracy,
        )  # fmt: skip
        if rejected.wrong:
            self.wrong.append(name)
        elif rejected.ended_from_outside:
            self.disturbed.append(name)
        elif rejected.status == "quarantined":
            self.crashed.append(name)

    def halved(self, name: str, reason: str) -> None:
        """It lost on the way."""
        self._lines[name] = msgspec.structs.replace(self._lines[name], status="halved", reason=reason)

    def raced(self, name: str, reason: str) -> None:
        """It was measured to the end and is not the best."""
        self._lines[name] = msgspec.structs.replace(self._lines[name], status="raced", reason=reason)

    def measured(self, name: str, samples_us: Sequence[float], lane: LiveLane | ReopenedLane) -> None:
        """Its times so far."""
        if samples_us:
            self._lines[name] = msgspec.structs.replace(
                self._lines[name], latency=latency_of(samples_us), peak_rss_mb=lane.peak_rss_mb
            )

    def chosen(self, name: str, latency: Latency | None, reason: str) -> CandidateEvidence:
        """The winner, with the latency of the final run."""
        line = self._lines[name]
        line = msgspec.structs.replace(line, status="chosen", reason=reason, latency=latency or line.latency)
        self._lines[name] = line
        return line

    def line(self, name: str) -> CandidateEvidence | None:
        """What is known of it."""
        return self._lines.get(name)

    def lines(self) -> list[CandidateEvidence]:
        """All, the chosen first, the measured by p90, then the refused."""
        return sorted(self._lines.values(), key=lambda line: (_ORDER.get(line.status, 9), _p90(line), line.name))

    @property
    def measured_count(self) -> int:
        """Number of lines with a time."""
        return sum(line.latency is not None for line in self._lines.values())

    def counts(self) -> Mapping[str, int]:
        """Number of lines by status."""
        counts: dict[str, int] = {}
        for line in self._lines.values():
            counts[line.status] = counts.get(line.status, 0) + 1
        return counts


def latency_of(samples_us: Sequence[float]) -> Latency:
    """Quantiles in milliseconds. ``samples_us`` is not empty."""
    p50, p90, p99 = (round(quantile(samples_us, fraction) / 1e3, 5) for fraction in (0.5, 0.9, 0.99))
    return Latency(p50_ms=p50, p90_ms=p90, p99_ms=p99, samples=len(samples_us))


def _p90(line: CandidateEvidence) -> float:
    return line.latency.p90_ms if line.latency is not None else float("inf")
