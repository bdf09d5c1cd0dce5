"""``prove_no_worse``: a new way to serve against the one it would replace, in interleaved pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent.errors import BackendError, SelectionCanceled, TrialError
from agent.inference.bundle_folder import BundleFolder
from agent.selection.candidates import Entrant
from agent.selection.lanes import LiveLane, ReopenedLane
from agent.selection.ledger import latency_of
from agent.selection.live_limit import expected_mb, live_limit
from agent.selection.quarantine import Quarantine, this_boot
from agent.selection.race import Contender, RacePlan, run_race
from agent.selection.request import Candidate, SelectionRequest, SelectionTools
from agent.selection.statistics import RatioBounds, ratio_bounds
from agent.selection.trial_pool import Opened, Rejected, TrialPool
from edge_contracts.capabilities import Capabilities
from edge_contracts.evidence import Latency
from edge_contracts.latency import LatencySketch

PAIRS = 50
MAX_P90_RATIO = 1.10
SAME_WITHIN_MS = 0.2
"""A difference of p90 below this is no difference that a request would feel."""
ANY_DROP = 2.0
"""More than any drop there is: cosines lie between -1 and 1."""
NEW, OLD = "new", "old"
__all__ = ["Candidate", "Proof", "ProofTerms", "prove_no_worse"]


@dataclass(frozen=True)
class ProofTerms:
    """The device and the limits. ``budget_s``: pairs are cut short after it, at 10 at the least."""

    device: Capabilities
    budget_cpus: float
    affinity: frozenset[int] | None = None
    max_drop: float = 0.01
    max_p90_ratio: float = MAX_P90_RATIO
    pairs: int = PAIRS
    budget_s: float = 30.0


@dataclass(frozen=True)
class Proof:
    """``ok``: the new one may replace the old one. code: "" or "golden_mismatch", "crash", "slower", "no_candidate".

    ratio_*: p90 new / old with one-sided 95 % bounds; None when nothing could be compared. text: one line that says it.
    """

    ok: bool
    text: str
    code: str = ""
    ratio_p90: float | None = None
    ratio_p90_lower: float | None = None
    ratio_p90_upper: float | None = None
    new: Latency | None = None
    old: Latency | None = None
    pairs: int = 0


def prove_no_worse(
    new: Candidate, old: Candidate, terms: ProofTerms, tools: SelectionTools, *,
    old_latency: LatencySketch | None = None,
) -> Proof:  # fmt: skip
    """Open both, judge the new one on its goldens, run interleaved pairs.

    Where memory has no room for a second copy beside the live engine, ``old_latency`` (what the live engine measured in
    its last hour) stands for the old one; without it both are opened anew in each turn. An old one that does not run
    any more cannot be worse. Raises SelectionCanceled, and TrialError that is no evidence when a trial was ended from
    outside.
    """
    quarantine = Quarantine(tools.cache_dir / "quarantine.json", this_boot)
    quarantine.load()
    roles = {NEW: new, OLD: old}
    pools = {role: TrialPool(_request(candidate, terms, role), tools, quarantine) for role, candidate in roles.items()}
    reopen = _reopens(roles, tools)
    try:
        first = _open(pools[NEW], new, reopen)
        if isinstance(first, Rejected):
            return _new_failed(first)
        if reopen and old_latency is not None and old_latency.count >= terms.pairs:
            return _against_sketch(first, old_latency, terms, tools)
        second = _open(pools[OLD], old, reopen)
        if isinstance(second, Rejected):
            return Proof(True, f"the old one does not run any more ({second.reason}): nothing to be worse than")
        return _pairs(first, second, terms, tools, pools)
    finally:
        for pool in pools.values():
            pool.close_all()


def verdict(bounds: RatioBounds, new: Latency, old: Latency, max_p90_ratio: float) -> tuple[bool, str]:
    """The rule, and its words: pure. ``bounds``: p90 new / old."""
    difference_ms = new.p90_ms - old.p90_ms
    told = f"p90 {new.p90_ms:.3f} ms against {old.p90_ms:.3f} ms, ratio {bounds.ratio:.2f}"
    if bounds.low <= max_p90_ratio:
        return True, f"no worse: {told} (at least {bounds.low:.2f} with 95 % confidence, {max_p90_ratio:.2f} allowed)"
    if difference_ms < SAME_WITHIN_MS:
        return True, f"no worse: {told}, and the difference is under {SAME_WITHIN_MS:g} ms"
    return False, f"slower: {told} (at least {bounds.low:.2f} with 95 % confidence, {max_p90_ratio:.2f} allowed)"


def _pairs(new: Opened, old: Opened, terms: ProofTerms, tools: SelectionTools, pools: dict[str, TrialPool]) -> Proof:
    contenders = {
        role: Contender(_Role(role, opened.lane), opened.result.typical_us)
        for role, opened in ((NEW, new), (OLD, old))
    }  # fmt: skip
    plan = RacePlan(deadline=tools.clock() + terms.budget_s, slice_s=0.01, min_count=1, max_count=64,
                    min_rounds=min(10, terms.pairs), max_rounds=terms.pairs, halve=False, seed=tools.seed)  # fmt: skip
    outcome = run_race(list(contenders.values()), plan, tools.clock)
    if NEW in outcome.failed:
        return _new_failed(_evidence_of(pools[NEW], new, outcome.failed[NEW]))
    if OLD in outcome.failed:
        reason = _evidence_of(pools[OLD], old, outcome.failed[OLD]).reason
        return Proof(True, f"the old one failed while it was compared ({reason}): nothing to be worse than")
    bounds = ratio_bounds(contenders[NEW].rounds, contenders[OLD].rounds, 0.9, seed=tools.seed)
    latency = {role: latency_of(_samples(contender)) for role, contender in contenders.items()}
    ok, text = verdict(bounds, latency[NEW], latency[OLD], terms.max_p90_ratio)
    return Proof(ok, text, "" if ok else "slower", round(bounds.ratio, 4), round(bounds.low, 4), round(bounds.high, 4),
                 latency[NEW], latency[OLD], outcome.rounds)  # fmt: skip


def _against_sketch(new: Opened, old: LatencySketch, terms: ProofTerms, tools: SelectionTools) -> Proof:
    contender = Contender(_Role(NEW, new.lane), new.result.typical_us)
    plan = RacePlan(deadline=tools.clock() + terms.budget_s, slice_s=0.5, min_rounds=3, max_rounds=3, halve=False)
    outcome = run_race([contender], plan, tools.clock)
    if NEW in outcome.failed:
        raise outcome.failed[NEW]
    latency = latency_of(_samples(contender))
    before = Latency(p50_ms=(old.quantile_us(0.5) or 0) / 1e3, p90_ms=(old.quantile_us(0.9) or 0) / 1e3,
                     samples=old.count)  # fmt: skip
    per_round = [latency_of(samples).p90_ms / before.p90_ms for samples in contender.rounds.values()]
    bounds = RatioBounds(min(per_round), latency.p90_ms / before.p90_ms, max(per_round))
    ok, text = verdict(bounds, latency, before, terms.max_p90_ratio)
    return Proof(ok, f"{text}; memory has no room for both, so against what the live engine measured",
                 "" if ok else "slower", round(bounds.ratio, 4), round(bounds.low, 4), round(bounds.high, 4), latency,
                 before, outcome.rounds)  # fmt: skip


def _open(pool: TrialPool, candidate: Candidate, reopen: bool) -> Opened | Rejected:
    """Raises TrialError that is no evidence when the trial was ended from outside."""
    variant = candidate.folder.bundle.variant(candidate.variant)
    if variant is None:
        raise BackendError("selection", f"the bundle {candidate.folder.folder} has no variant {candidate.variant!r}")
    entrant = Entrant(variant, candidate.options)
    for answer in pool.open_each([entrant], at_once=1, reopen=reopen, give_up_at=math.inf):
        if isinstance(answer, Rejected) and answer.ended_from_outside:
            raise TrialError(answer.reason, is_evidence=False)
        return answer
    raise SelectionCanceled("canceled")


def _evidence_of(pool: TrialPool, opened: Opened, error: TrialError) -> Rejected:
    if not error.is_evidence:
        raise error
    return pool.rejected(opened.entrant, error)


def _new_failed(rejected: Rejected) -> Proof:
    code = "golden_mismatch" if rejected.wrong else "crash" if rejected.status == "quarantined" else "no_candidate"
    return Proof(False, f"{rejected.entrant.name}: {rejected.reason}", code)


def _reopens(roles: dict[str, Candidate], tools: SelectionTools) -> bool:
    sizes = [
        expected_mb(variant.spec)
        for candidate in roles.values()
        if (variant := candidate.folder.bundle.variant(candidate.variant)) is not None
    ]
    return live_limit(tools.available_mb(), tools.limits.reserve_mb, max([*sizes, 1]), 2) < 2


def _request(candidate: Candidate, terms: ProofTerms, role: str) -> SelectionRequest:
    """The old one serves already: however it answers the goldens, its speed is what counts here."""
    folder: BundleFolder = candidate.folder
    return SelectionRequest(
        folder=folder, device=terms.device, budget_cpus=terms.budget_cpus, affinity=terms.affinity,
        max_drop=terms.max_drop if role == NEW else ANY_DROP,
    )  # fmt: skip


def _samples(contender: Contender) -> list[float]:
    return [value for samples in contender.rounds.values() for value in samples]


class _Role:
    """A lane under the name of its role."""

    def __init__(self, name: str, lane: LiveLane | ReopenedLane) -> None:
        self.name = name
        self._lane = lane

    def run(self, count: int, warm: int) -> list[float]:
        return self._lane.run(count, warm)

    def settle(self) -> None:
        self._lane.settle()
