"""The work of each state up to the trial: what is done in it, and which event that leads to.

Nothing here remembers a state: the executor writes the journal before each step and acts on the outcome after it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.config import AgentConfig
from agent.disk import Disk
from agent.errors import NoCandidate, UpdateError
from agent.update import verification
from agent.update.archive_source import ArchiveSource
from agent.update.blob_source import BlobSource
from agent.update.download import Downloader
from agent.update.effects import Interrupt, Progress, Proving, Selection
from agent.update.machine import Event
from agent.update.records import FLEET, Installed, ModelState, Wish
from agent.update.slots import Slots
from agent.update.verification import Trust, VerifiedBundle
from edge_contracts.bundle import Bundle, Variant, parse_bundle
from edge_contracts.capabilities import Capabilities
from edge_contracts.compatibility import refusals
from edge_contracts.errors import ContractError
from edge_contracts.evidence import ChoiceEvidence

MEBIBYTE = 1024 * 1024
OBJECTIVES = ("latency", "throughput", "memory")
REJECTIONS = frozenset({"unsigned", "incompatible"})
"""Error codes of a deployment that was turned down rather than tried."""


@dataclass(frozen=True)
class Outcome:
    """What a step led to. ``active``: set exactly when a bundle is to be committed."""

    event: Event
    reason: str | None = None
    code: str | None = None
    evidence: ChoiceEvidence | None = None
    active: Installed | None = None


@dataclass(frozen=True)
class Job:
    """One deployment as a step sees it."""

    name: str
    wish: Wish
    model: ModelState
    progress: Progress
    interrupt: Interrupt


def failure(error: UpdateError) -> Outcome:
    """The outcome of an effect that could not be done."""
    event = Event.REJECTED if error.code in REJECTIONS else Event.FAILED
    return Outcome(event, str(error), error.code)


class Steps:
    """Queue, download, verify, install, probe. ``fleet_source(name)``: where the fleet keeps a model's blobs."""

    def __init__(
        self, slots: Slots, disk: Disk, downloader: Downloader, selection: Selection, trust: Trust,
        config: AgentConfig, capabilities: Callable[[], Capabilities],
        fleet_source: Callable[[str], BlobSource | None],
    ) -> None:  # fmt: skip
        self._slots = slots
        self._disk = disk
        self._downloader = downloader
        self._selection = selection
        self._trust = trust
        self._config = config
        self._capabilities = capabilities
        self._fleet_source = fleet_source
        self._verified: tuple[str, VerifiedBundle] | None = None

    def queued(self, job: Job) -> Outcome:
        """Is there anything to do, and is it allowed?"""
        active, last_good, digest = job.model.active, job.model.last_good, job.wish.digest
        if active is not None and active.digest == digest:
            return Outcome(Event.ALREADY_ACTIVE, "it is active already", active=active)
        if last_good is not None and last_good.digest == digest and self._is_here(job.name, last_good):
            return Outcome(Event.PINNED, job.wish.why)
        verification.admit(job.name, job.wish, self._trust, self._config.update.allow_unsigned)
        return Outcome(Event.STARTED)

    def downloading(self, job: Job) -> Outcome:
        """Index and metadata first; then, if anything of it runs here and fits, the blobs that are not here yet."""
        assert job.wish.digest is not None
        sources = self._sources(job)
        index_bytes = self._downloader.index(sources, job.wish.digest, job.interrupt)
        try:
            bundle = parse_bundle(index_bytes, lambda blob: self._downloader.small(sources, blob, job.interrupt))
        except ContractError as error:
            raise UpdateError("digest", str(error)) from error
        verification.check_identity(bundle, job.name, job.wish)
        missing = {
            blob: size
            for blob, size in verification.needed_blobs(bundle, self.runnable(bundle)).items()
            if not self._slots.has(blob, size)
        }
        self._check_space(bundle, sum(missing.values()))
        verb = "downloading" if job.wish.source is None else "reading"
        for position, (blob, size) in enumerate(sorted(missing.items(), key=lambda item: item[1])):
            job.progress(f"{verb} {position + 1} of {len(missing)} files ({size / 1e6:.2f} MB)")
            self._downloader.blob(sources, blob, size, job.progress, job.interrupt)
        return Outcome(Event.DOWNLOADED)

    def verifying(self, job: Job) -> Outcome:
        """Every byte that will be used has its digest, and the policy still admits the bundle."""
        self._verify(job)
        return Outcome(Event.VERIFIED)

    def installing(self, job: Job) -> Outcome:
        """The bundle's folder is there, whole."""
        verified = self._verify(job)
        try:
            self._slots.lay_out(verified.bundle, verified.index_bytes, verified.variants)
        except OSError as error:
            raise UpdateError(
                "no_space" if error.errno == errno.ENOSPC else "internal", f"installing: {error}"
            ) from error
        return Outcome(Event.INSTALLED)

    def probing(self, job: Job) -> Outcome:
        """Which variant is right and fastest here, by measurement."""
        assert job.wish.digest is not None
        folder = self._slots.folder(job.name, job.wish.digest)
        try:
            evidence = self._selection.choose(
                folder, proving(self._config, job.wish, folder.bundle), job.progress, job.interrupt
            )
        except NoCandidate as error:
            return Outcome(Event.FAILED, error.reason, error.code, evidence=error.evidence)
        return Outcome(Event.CHOSEN, evidence.why, evidence=evidence)

    def runnable(self, bundle: Bundle) -> list[Variant]:
        """The variants that can run here. Raises UpdateError "incompatible" with every reason when there is none."""
        device = self._capabilities()
        reasons = {variant.name: refusals(variant.spec, device) for variant in bundle.variants}
        fitting = [variant for variant in bundle.variants if not reasons[variant.name]]
        if not fitting:
            text = "; ".join(f"{name}: {', '.join(why)}" for name, why in reasons.items())
            raise UpdateError("incompatible", f"no variant of {bundle.spec.name} can run here: {text}")
        return fitting

    def is_signed(self, job: Job) -> bool:
        """Whether the bundle of this deployment is signed. Raises UpdateError "unsigned" when it must be and is not."""
        return verification.admit(job.name, job.wish, self._trust, self._config.update.allow_unsigned)

    def forget(self) -> None:
        """The deployment has ended: what was kept in memory for it is of no use any more."""
        self._verified = None

    def _verify(self, job: Job) -> VerifiedBundle:
        assert job.wish.digest is not None
        if self._verified is None or self._verified[0] != job.wish.digest:
            signed = verification.admit(job.name, job.wish, self._trust, self._config.update.allow_unsigned)
            verified = verification.verify(self._slots, job.name, job.wish, signed, self.runnable)
            self._verified = (job.wish.digest, verified)
        return self._verified[1]

    def _sources(self, job: Job) -> Sequence[BlobSource]:
        if job.wish.source is not None:
            return [ArchiveSource(Path(job.wish.source))]
        source = self._fleet_source(job.name)
        if source is None:
            raise UpdateError("download", "this device is not enrolled: there is no server to download from")
        return [source]

    def _check_space(self, bundle: Bundle, missing_bytes: int) -> None:
        needed = missing_bytes + self._config.reserve_mb * MEBIBYTE
        free = self._disk.free_bytes(self._slots.downloads)
        if missing_bytes and free < needed:
            raise UpdateError(
                "no_space",
                f"{bundle.spec.name} {bundle.spec.version} needs {missing_bytes / 1e6:.1f} MB and "
                f"{self._config.reserve_mb} MiB are to stay free (reserve_mb), {free / 1e6:.1f} MB are: free some",
            )

    def _is_here(self, name: str, installed: Installed) -> bool:
        try:
            present = self._slots.folder(name, installed.digest).variants_present()
        except ContractError:
            return False
        return any(variant.name == installed.variant for variant in present)


def proving(config: AgentConfig, wish: Wish, bundle: Bundle) -> Proving:
    """How this deployment is to be proven: policy, then bundle, then configuration."""
    policy, objective = wish.policy, bundle.spec.latency_objective
    if policy.objective is not None and policy.objective not in OBJECTIVES:
        raise UpdateError("incompatible", f"objective {policy.objective!r}: this device knows {', '.join(OBJECTIVES)}")
    soak_s = config.update.soak_s if wish.origin == FLEET else config.update.local_soak_s
    return Proving(
        soak_s=soak_s if policy.soak_s is None else policy.soak_s,
        max_p90_ratio=policy.max_p90_ratio or config.update.max_p90_ratio,
        slo_p95_ms=policy.slo_p95_ms if policy.slo_p95_ms is not None else (objective.p95_ms if objective else None),
        race_budget_s=policy.race_budget_s or config.race_budget_s,
        objective=policy.objective or config.objective,
        max_drop=bundle.spec.gate.max_drop if config.update.max_drop is None else config.update.max_drop,
    )
