"""The Selection effect over agent.selection: names of the update machine on one side, of the selection on the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from agent.disk import make_private
from agent.errors import SelectionCanceled, UpdateInterrupted
from agent.inference.bundle_folder import BundleFolder
from agent.selection.choice import choose, distrust
from agent.selection.proof import ProofTerms, prove_no_worse
from agent.selection.request import Candidate, SelectionRequest, SelectionTools, TrialLimits
from agent.update.effects import Interrupt, Placed, Progress, Proof, Proving
from edge_contracts.capabilities import Capabilities
from edge_contracts.evidence import ChoiceEvidence
from edge_contracts.latency import LatencySketch


def _none_recent(name: str, digest: str) -> LatencySketch | None:
    del name, digest
    return None


@dataclass(frozen=True)
class MeasuredSelection:
    """Trials run with the budget and the CPUs that the model would be served with.

    ``recent(name, digest)``: what the live engine measured in its last hour, None where it has not.
    """

    data_dir: Path
    capabilities: Callable[[], Capabilities]
    affinity: frozenset[int] | None
    monotonic: Callable[[], float]
    reserve_mb: int
    pairs: int
    recent: Callable[[str, str], LatencySketch | None] = _none_recent

    def choose(
        self, folder: BundleFolder, proving: Proving, progress: Progress, interrupt: Interrupt
    ) -> ChoiceEvidence:
        request = replace(
            self._request(folder), objective=proving.objective, race_budget_s=proving.race_budget_s,
            max_drop=proving.max_drop,
        )  # fmt: skip
        try:
            return choose(request, self._tools(progress, interrupt))
        except SelectionCanceled as error:
            raise UpdateInterrupted(str(error)) from error

    def prove_no_worse(
        self, new: Placed, old: Placed, proving: Proving, progress: Progress, interrupt: Interrupt
    ) -> Proof:
        tools = self._tools(progress, interrupt)
        device = self.capabilities()
        terms = ProofTerms(
            device=device, budget_cpus=device.cpu.budget_cpus or 1.0, affinity=self.affinity, pairs=self.pairs,
            max_drop=proving.max_drop, max_p90_ratio=proving.max_p90_ratio, budget_s=proving.race_budget_s,
        )  # fmt: skip
        try:
            proof = prove_no_worse(
                _candidate(new), _candidate(old), terms, tools, old_latency=self.recent(old.name, old.digest)
            )
        except SelectionCanceled as error:
            raise UpdateInterrupted(str(error)) from error
        return Proof(proof.ok, proof.text, proof.code or "slower")

    def distrust(self, placed: Placed, reason: str) -> None:
        if placed.evidence is not None:
            distrust(placed.evidence, self._request(placed.folder), self._cache_dir, reason)

    @property
    def _cache_dir(self) -> Path:
        return self.data_dir / "cache"

    def _request(self, folder: BundleFolder) -> SelectionRequest:
        device = self.capabilities()
        return SelectionRequest(
            folder=folder, device=device, budget_cpus=device.cpu.budget_cpus or 1.0, affinity=self.affinity
        )  # fmt: skip

    def _tools(self, progress: Progress, interrupt: Interrupt) -> SelectionTools:
        work = self._cache_dir / "work"
        shutil.rmtree(work, ignore_errors=True)
        make_private(work)
        return SelectionTools(
            cache_dir=self._cache_dir, work_dir=work, clock=self.monotonic, progress=progress,
            is_canceled=interrupt, limits=TrialLimits(reserve_mb=self.reserve_mb),
        )  # fmt: skip


def _candidate(placed: Placed) -> Candidate:
    return Candidate(placed.folder, placed.variant, placed.options)
