"""``choose``: which variant, backend and options serve best on this device, by measurement.

enumerate -> drop what cannot fit -> accuracy on the goldens, on this chip -> interleaved race with successive halving
-> objective, fewest threads within 1 % -> one final interleaved run of the winner beside ONNX Runtime -> evidence.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import NoCandidate, TrialError
from agent.hardware.budget import threads_of
from agent.inference.backend import Backend
from agent.inference.lookup import backend
from agent.selection.cache import CachedChoice, ChoiceCache
from agent.selection.candidates import (
    DEFAULT_BASELINE,
    TUNED_BASELINE,
    Entrant,
    default_baseline,
    entrants,
    is_baseline_variant,
    with_batches,
)
from agent.selection.final import Final, best_of_tuned, overtaken
from agent.selection.fingerprint import fingerprint
from agent.selection.halving import Standing
from agent.selection.heats import Heats
from agent.selection.ledger import Ledger, latency_of
from agent.selection.objective import best
from agent.selection.quarantine import Quarantine, this_boot
from agent.selection.race import Contender, run_race
from agent.selection.reasons import failure_code, failure_text, raced_text, switched_text, why_chosen
from agent.selection.request import OBJECTIVES, Candidate, SelectionRequest, SelectionTools
from agent.selection.schedule import Schedule, schedule
from agent.selection.statistics import RatioBounds, ratio_bounds
from agent.selection.trial_pool import Opened, TrialPool, quarantine_key
from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence, Latency

FINAL_ROUNDS = 40
FINAL_MIN_ROUNDS = 10
FINAL_S = 1.5
FINAL_SHARE = 0.2

__all__ = ["Candidate", "SelectionRequest", "SelectionTools", "choose", "distrust"]


def choose(request: SelectionRequest, tools: SelectionTools) -> ChoiceEvidence:
    """Blocking; uses about ``request.race_budget_s``, or milliseconds when the same choice was made before.

    Call it from a thread that lives until it returns. Raises NoCandidate with the evidence, SelectionCanceled,
    ValueError for an unknown objective, and TrialError that is no evidence when trials were ended from outside and none
    is left.
    """
    if request.objective not in OBJECTIVES:
        raise ValueError(f"objective {request.objective!r}: one of {', '.join(OBJECTIVES)} expected")
    mark = fingerprint(request)
    cache = ChoiceCache(tools.cache_dir / "choices")
    quarantine = Quarantine(tools.cache_dir / "quarantine.json", this_boot)
    quarantine.load()
    known = cache.find(mark, request.race_budget_s)
    if known is not None and not _is_quarantined(known, request, quarantine):
        tools.progress("the same choice was made before on this device: taken from the cache")
        return known
    pool = TrialPool(request, tools, quarantine)
    try:
        made = _Choice(request, tools, pool, mark).make()
    finally:
        pool.close_all()
    if made.keep:
        cache.keep(CachedChoice(evidence=made.evidence, complete=made.complete, race_budget_s=request.race_budget_s))
    return made.evidence


def distrust(evidence: ChoiceEvidence, request: SelectionRequest, cache_dir: Path, reason: str) -> None:
    """The chosen one failed while it served (crashed, hung): keep it out of later choices on this device."""
    entrant = _chosen_entrant(evidence, request)
    if entrant is None:
        return
    quarantine = Quarantine(cache_dir / "quarantine.json", this_boot)
    quarantine.load()
    quarantine.add(quarantine_key(request.device, entrant), "crash", reason)
    ChoiceCache(cache_dir / "choices").forget(evidence.fingerprint)


def _is_quarantined(evidence: ChoiceEvidence, request: SelectionRequest, quarantine: Quarantine) -> bool:
    entrant = _chosen_entrant(evidence, request)
    if entrant is None:
        return True
    return quarantine.entry(quarantine_key(request.device, entrant), request.max_drop) is not None


def _chosen_entrant(evidence: ChoiceEvidence, request: SelectionRequest) -> Entrant | None:
    variant = request.folder.bundle.variant(evidence.chosen.variant)
    return None if variant is None else Entrant(variant, evidence.chosen.options)


@dataclass(frozen=True)
class _Made:
    evidence: ChoiceEvidence
    complete: bool
    keep: bool


class _Choice:
    """One choice in the making."""

    def __init__(self, request: SelectionRequest, tools: SelectionTools, pool: TrialPool, mark: str) -> None:
        self._request = request
        self._tools = tools
        self._pool = pool
        self._mark = mark
        self._started = tools.clock()
        self._times: Schedule = schedule(self._started, request.race_budget_s)
        self._backends: dict[str, Backend] = {}
        affinity = request.affinity
        self._cpus = min(request.budget_cpus, len(affinity)) if affinity else request.budget_cpus

    def make(self) -> _Made:
        """Raises NoCandidate, SelectionCanceled, TrialError."""
        request = self._request
        threads = threads_of(self._cpus)
        found, refused = entrants(request.folder, request.device, threads, self._backend)
        if request.objective == "throughput":
            found = with_batches(found, request.folder.bundle.spec.signature)
        ledger = Ledger(refused)
        if not found:
            raise self._nothing(ledger)
        heats = Heats(request, self._tools, self._pool, ledger, self._times, threads)
        heats.run(found)
        while heats.table:
            winner = self._best(heats, ledger)
            final = self._final_run(heats, ledger, winner, found)
            if final is not None:
                return self._evidence(heats, ledger, *self._settled(heats, ledger, winner, final))
            heats.table = [standing for standing in heats.table if standing.name != winner.name]
        raise self._nothing(ledger)

    def _backend(self, name: str) -> Backend:
        if name not in self._backends:
            environ = os.environ if self._tools.environ is None else self._tools.environ
            self._backends[name] = backend(name, environ=environ)
        return self._backends[name]

    def _best(self, heats: Heats, ledger: Ledger) -> Standing:
        threads = {standing.name: heats.opened[standing.name].entrant.threads for standing in heats.table}
        peaks = {name: line.peak_rss_mb or 0.0 for name in threads if (line := ledger.line(name)) is not None}
        return best(self._request.objective, heats.table, threads, peaks)

    def _final_run(self, heats: Heats, ledger: Ledger, winner: Standing, found: list[Entrant]) -> Final | None:
        """The winner and the baselines, interleaved, nobody dropped. None when the winner failed in it."""
        roles = {winner.name: heats.opened[winner.name]}
        default = self._open_default(heats, found)
        if default is not None:
            roles[DEFAULT_BASELINE] = default
        tuned = self._tuned(heats, ledger)
        if tuned is not None and tuned.entrant.name != winner.name:
            roles[TUNED_BASELINE] = tuned
        contenders = {role: Contender(_Named(role, opened), opened.result.typical_us) for role, opened in roles.items()}
        end = min(self._times.end, self._tools.clock() + max(FINAL_S, FINAL_SHARE * self._request.race_budget_s))
        rounds = FINAL_ROUNDS if len(roles) > 1 else FINAL_MIN_ROUNDS
        plan = heats.plan(end, rounds, halve=False, min_rounds=FINAL_MIN_ROUNDS)
        self._tools.progress(f"final run: {winner.name} beside {len(roles) - 1} baselines")
        outcome = run_race(list(contenders.values()), plan, self._tools.clock)
        heats.rounds += outcome.rounds
        if winner.name in outcome.failed:
            heats.fail(winner.name, outcome.failed[winner.name])
            return None
        latencies: dict[str, Latency] = {}
        for role, contender in contenders.items():
            if role not in outcome.failed:
                samples = [value for taken in contender.rounds.values() for value in taken]
                self._tools.record(role, samples)
                latencies[role] = latency_of(samples)
        latency = latencies.pop(winner.name)
        if tuned is not None and tuned.entrant.name == winner.name:
            latencies[TUNED_BASELINE] = latency
        tuned_latency = latencies.get(TUNED_BASELINE)
        bounds = None
        if TUNED_BASELINE in contenders and TUNED_BASELINE not in outcome.failed:
            bounds = ratio_bounds(
                contenders[winner.name].rounds, contenders[TUNED_BASELINE].rounds, plan.fraction, seed=plan.seed
            )
        name = tuned.entrant.name if tuned is not None else None
        return Final(latency, best_of_tuned(latencies), name, tuned_latency, bounds)

    def _open_default(self, heats: Heats, found: list[Entrant]) -> Opened | None:
        entrant = default_baseline(found, self._backend)
        if entrant is None:
            return None
        answers = self._pool.open_each([entrant], at_once=1, reopen=heats.reopens, give_up_at=self._times.end)
        for answer in answers:
            if isinstance(answer, Opened):
                return answer
            self._tools.progress(f"no baseline: {answer.reason}")
        return None

    def _tuned(self, heats: Heats, ledger: Ledger) -> Opened | None:
        """The best of ONNX Runtime on the plain file, as raced."""
        plain = [
            standing for standing in heats.table if is_baseline_variant(heats.opened[standing.name].entrant.variant)
        ]
        alive = [heats.opened[standing.name] for standing in plain[:1]]
        alive += [heats.spare] if heats.spare is not None else []

        def p90_ms(opened: Opened) -> float:
            line = ledger.line(opened.entrant.name)
            return line.latency.p90_ms if line is not None and line.latency is not None else float("inf")

        return min(alive, key=p90_ms, default=None)

    def _settled(self, heats: Heats, ledger: Ledger, winner: Standing, final: Final) -> tuple[Standing, Final]:
        """The winner, unless tuned ONNX Runtime has overtaken it in the final run: then that one."""
        if not overtaken(final, self._request.objective):
            return winner, final
        assert final.tuned is not None
        assert final.tuned_latency is not None
        assert final.against_tuned is not None
        ledger.raced(winner.name, switched_text(final.tuned, final.against_tuned.ratio))
        heats.table = [standing for standing in heats.table if standing.name not in (winner.name, final.tuned)]
        standing = Standing(final.tuned, final.tuned_latency.p90_ms * 1e3, RatioBounds(1.0, 1.0, 1.0))
        return standing, replace(final, latency=final.tuned_latency)

    def _evidence(self, heats: Heats, ledger: Ledger, winner: Standing, final: Final) -> _Made:
        objective, budget_s = self._request.objective, self._request.race_budget_s
        for standing in heats.table:
            if standing.name != winner.name:
                ledger.raced(standing.name, raced_text(standing, winner, objective))
        ledger.chosen(winner.name, final.latency, "")
        why = why_chosen(
            objective, winner, heats.table, ledger.counts(), heats.rounds,
            measured=ledger.measured_count, decided=heats.decided,
            ran_out_of_time=heats.ran_out_of_time, budget_s=budget_s,
        )  # fmt: skip
        chosen = ledger.chosen(winner.name, final.latency, why)
        default = final.baselines.get(DEFAULT_BASELINE)
        ratio = None
        if default is not None and final.latency.p50_ms > 0:
            ratio = round(default.p50_ms / final.latency.p50_ms, 3)
        evidence = ChoiceEvidence(
            chosen=chosen, why=why, objective=objective, budget_cpus=self._cpus,
            fingerprint=self._mark, baselines=dict(final.baselines), ratio_vs_onnxruntime_default=ratio,
            candidates=ledger.lines(), rounds=heats.rounds, seconds=round(self._tools.clock() - self._started, 3),
        )  # fmt: skip
        return _Made(evidence, complete=not heats.ran_out_of_time, keep=not ledger.disturbed)

    def _nothing(self, ledger: Ledger) -> NoCandidate | TrialError:
        lines = ledger.lines()
        if ledger.disturbed:
            return TrialError(
                f"{ledger.disturbed[0]}: the trial was ended from outside, and nothing else is left", is_evidence=False
            )
        code = failure_code(lines, ledger.wrong, ledger.crashed)
        reason = failure_text(code, lines)
        nobody = CandidateEvidence(name="none", variant="", runtime="", precision="", status="refused", reason=reason)
        evidence = ChoiceEvidence(
            chosen=nobody, why=reason, objective=self._request.objective, budget_cpus=self._cpus,
            fingerprint=self._mark, candidates=lines, seconds=round(self._tools.clock() - self._started, 3),
        )  # fmt: skip
        return NoCandidate(reason, code, evidence)


class _Named:
    """A lane under the name of its role in the final run."""

    def __init__(self, name: str, opened: Opened) -> None:
        self.name = name
        self._lane = opened.lane

    def run(self, count: int, warm: int) -> list[float]:
        return self._lane.run(count, warm)

    def settle(self) -> None:
        self._lane.settle()
