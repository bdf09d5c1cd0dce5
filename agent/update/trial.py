"""The trial of a bundle that has been chosen from: no worse than what it replaces, then serving on probation.

What served before serves until the new one is warm. Whatever goes wrong after that, it serves again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from agent.errors import ServingError, TrialError, UpdateError, UpdateInterrupted
from agent.update.effects import Placed, Proving, Selection, Serving
from agent.update.machine import Event
from agent.update.records import Deployment, Installed
from agent.update.slots import Slots
from agent.update.steps import Job, Outcome
from edge_contracts.errors import ContractError
from edge_contracts.evidence import ChoiceEvidence

_log = logging.getLogger(__name__)


class Trial:
    """Effects of the state ``trial``. ``now_ms``: Unix time for the record of the commit."""

    def __init__(self, slots: Slots, selection: Selection, serving: Serving, now_ms: Callable[[], int]) -> None:
        self._slots = slots
        self._selection = selection
        self._serving = serving
        self._now_ms = now_ms

    def run(self, job: Job, deployment: Deployment, terms: Proving | None, signed: bool) -> Outcome:
        """Prove, switch, soak. ``terms`` None: it goes back to a pinned bundle, which was proven when it came.

        Raises UpdateInterrupted; then what served before serves again.
        """
        new, installed = self._new(job, deployment, terms, signed)
        old = self.placed(job.name, job.model.active)
        if terms is not None:
            refusal = self._prove(job, new, old, terms)
            if refusal is not None:
                return refusal
        try:
            provider = self._serving.switch_to(new)
        except ServingError as error:
            return Outcome(Event.FAILED, str(error), "crash")
        if terms is not None and terms.soak_s > 0:
            setback = self._soak(job, new, old, terms)
            if setback is not None:
                return setback
        if provider is not None:
            installed = _with_provider(installed, provider)
        return Outcome(Event.PROVEN, active=installed)

    def distrust(self, placed: Placed, reason: str) -> None:
        """What serves was proven and fails all the same. Raises OSError."""
        self._selection.distrust(placed, reason)

    def placed(self, name: str, installed: Installed | None) -> Placed | None:
        """What was committed, as effects take it; None when there is nothing, or its files are gone or damaged."""
        if installed is None:
            return None
        try:
            folder = self._slots.intact(name, installed.digest, installed.variant)
        except ContractError as error:
            _log.error("%s %s: %s", name, installed.version, error)
            return None
        return Placed(
            name, installed.version, installed.digest, folder, installed.variant, installed.options,
            installed.signed, installed.evidence, installed.slo_p95_ms,
        )  # fmt: skip

    def _new(self, job: Job, deployment: Deployment, terms: Proving | None, signed: bool) -> tuple[Placed, Installed]:
        wish = deployment.wish
        if terms is None:
            kept = job.model.last_good
            placed = self.placed(job.name, kept)
            if kept is None or placed is None or kept.digest != wish.digest:
                raise UpdateError("internal", f"the bundle to go back to ({wish.digest}) is not here any more")
            return placed, _adopted(kept, deployment, self._now_ms())
        evidence = deployment.evidence
        if evidence is None or wish.digest is None:
            raise UpdateError("internal", "the choice of this deployment is lost: deploy it again")
        folder = self._slots.folder(job.name, wish.digest)
        chosen = evidence.chosen
        placed = Placed(
            job.name,
            folder.bundle.spec.version,
            wish.digest,
            folder,
            chosen.variant,
            chosen.options,
            signed,
            evidence,
            terms.slo_p95_ms,
        )
        return placed, _installed(deployment, placed, evidence, terms, self._now_ms())

    def _prove(self, job: Job, new: Placed, old: Placed | None, terms: Proving) -> Outcome | None:
        slow = _over_slo(new.evidence, terms.slo_p95_ms)
        if slow is not None:
            return Outcome(Event.FAILED, slow, "slower", evidence=new.evidence)
        if old is None or old.digest == new.digest:
            return None
        try:
            proof = self._selection.prove_no_worse(new, old, terms, job.progress, job.interrupt)
        except TrialError as error:
            if not error.is_evidence:
                raise UpdateInterrupted(error.reason) from error
            return Outcome(Event.FAILED, error.reason, "crash", evidence=new.evidence)
        job.progress(proof.text)
        if proof.ok:
            return None
        return Outcome(Event.FAILED, f"{proof.text}; {old.version} stays", proof.code, evidence=new.evidence)

    def _soak(self, job: Job, new: Placed, old: Placed | None, terms: Proving) -> Outcome | None:
        job.progress(f"{new.version} serves on probation for {terms.soak_s:g} s")
        try:
            watched = self._serving.watch(new, terms.soak_s, job.interrupt)
        except UpdateInterrupted:
            try:
                self._put_back(job.name, old)
            except ServingError as error:
                return Outcome(Event.REVERT_FAILED, f"stopped in the soak; going back failed: {error}", "crash")
            raise
        if watched.fault is None:
            return None
        reason = f"in the soak: {watched.fault}"
        try:
            self._put_back(job.name, old)
        except ServingError as error:
            return Outcome(Event.REVERT_FAILED, f"{reason}; going back failed: {error}", watched.code)
        back = f"back to {old.version}" if old is not None else "nothing serves, as before"
        return Outcome(Event.REVERTED, f"{reason}; {back}", watched.code, evidence=new.evidence)

    def _put_back(self, name: str, old: Placed | None) -> None:
        if old is None:
            self._serving.remove(name)
        else:
            self._serving.switch_to(old)


def _over_slo(evidence: ChoiceEvidence | None, slo_p95_ms: float | None) -> str | None:
    """A p90 beyond the p95 objective cannot meet it."""
    latency = evidence.chosen.latency if evidence is not None else None
    if slo_p95_ms is None or latency is None or latency.p90_ms <= slo_p95_ms:
        return None
    return f"p90 {latency.p90_ms:.2f} ms here is over the objective of {slo_p95_ms:g} ms (p95)"


def _installed(
    deployment: Deployment, placed: Placed, evidence: ChoiceEvidence, terms: Proving, now_ms: int
) -> Installed:
    chosen = evidence.chosen
    return Installed(
        deployment=deployment.wish.deployment, version=placed.version, digest=placed.digest, variant=chosen.variant,
        runtime=chosen.runtime, precision=chosen.precision, target=chosen.target, options=dict(chosen.options),
        provider=chosen.provider, signed=placed.signed, slo_p95_ms=terms.slo_p95_ms, origin=deployment.wish.origin,
        committed_ms=now_ms, evidence=evidence,
    )  # fmt: skip


def _adopted(kept: Installed, deployment: Deployment, now_ms: int) -> Installed:
    """The pinned bundle as this deployment's."""
    return msgspec.structs.replace(
        kept, deployment=deployment.wish.deployment, origin=deployment.wish.origin, committed_ms=now_ms
    )


def _with_provider(installed: Installed, provider: str) -> Installed:
    return msgspec.structs.replace(installed, provider=provider)
