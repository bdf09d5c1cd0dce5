"""What could run here: variant x backend x options, and for all that cannot, the reason. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.errors import BackendError
from agent.inference.backend import BATCH_OPTION, Backend
from agent.inference.bundle_folder import BundleFolder
from edge_contracts.bundle import Variant
from edge_contracts.capabilities import Capabilities
from edge_contracts.compatibility import refusals
from edge_contracts.evidence import CandidateEvidence, OptionValue
from edge_contracts.profiles import Advice, RuntimeAdvice
from edge_contracts.tensor_signature import Signature

BASELINE_RUNTIME = "onnxruntime"
BASELINE_PRECISION = "fp32"
BARE_NOTE = "bare file"
BATCH_SIZES = (4, 16)
DEFAULT_BASELINE = "onnxruntime-default"
TUNED_BASELINE = "onnxruntime-tuned"
_WORDS_FOR_FALSE = {"arena": "no-arena", "prepacking": "no-prepacking", "xnnpack": "no-xnnpack", "pinning": "unpinned"}


@dataclass(frozen=True)
class Entrant:
    """One candidate. ``rank``: its place in its backend's list, 0 being the most promising."""

    variant: Variant
    options: Mapping[str, OptionValue]
    rank: int = 0

    @property
    def name(self) -> str:
        """Unique within a bundle: the variant and what is special about the options."""
        return " ".join([self.variant.name, *option_words(self.options)])

    @property
    def mode(self) -> str:
        """What decides about right and wrong answers and about crashes: provider and precision, not threads."""
        return f"{self.options.get('provider', '')}/{self.options.get('precision', '')}"

    @property
    def group(self) -> tuple[str, str]:
        """Entrants of one group compute the same numbers; only scheduling differs."""
        return self.variant.digest, self.mode

    @property
    def threads(self) -> int:
        """Threads it uses; 0 where the options leave that to the runtime."""
        value = self.options.get("threads", 0)
        return int(value) if isinstance(value, int) else 0

    @property
    def precision(self) -> str:
        """What it computes in: the variant's, unless the runtime was told otherwise."""
        told = str(self.options.get("precision", ""))
        return told if told in ("bf16", "f16") else self.variant.spec.precision

    def evidence(self, status: str, reason: str | None = None) -> CandidateEvidence:
        """As a line of the evidence, without measurements."""
        spec = self.variant.spec
        return CandidateEvidence(
            name=self.name, variant=spec.name, runtime=spec.runtime, precision=self.precision, target=spec.target,
            options=dict(self.options), status=status, reason=reason,
        )  # fmt: skip


def option_words(options: Mapping[str, OptionValue]) -> list[str]:
    """The options in a few words, the usual ones left out: ``["t2", "bf16", "spin"]``."""
    words = [f"t{options['threads']}"] if "threads" in options else ["default"]
    if BATCH_OPTION in options:
        words.append(f"batch{options[BATCH_OPTION]}")
    if options.get("precision") in ("bf16", "f16"):
        words.append(str(options["precision"]))
    if options.get("spinning") is True:
        words.append("spin")
    if options.get("pinning") is True:
        words.append("pinned")
    if options.get("execution") == "parallel":
        words.append(f"parallel{options.get('inter_threads', '')}")
    words += [word for key, word in _WORDS_FOR_FALSE.items() if options.get(key) is False]
    provider = str(options.get("provider", "")).removesuffix("ExecutionProvider")
    if provider and provider.lower() not in ("cpu", "stub-cpu"):
        words.append(provider)
    return words


def entrants(
    folder: BundleFolder, device: Capabilities, threads: int, backend_of: Callable[[str], Backend]
) -> tuple[list[Entrant], list[CandidateEvidence]]:
    """All that may be tried, in the order of trust (see ``first_of_groups``), and the refused with their reasons."""
    present = {variant.name for variant in folder.variants_present()}
    found: list[Entrant] = []
    refused: list[CandidateEvidence] = []
    for variant in folder.bundle.variants:
        sets, reason = _option_sets(variant, present, device, threads, backend_of)
        if reason:
            refused.append(_refused(variant, reason))
        found += [Entrant(variant, options, rank) for rank, options in enumerate(sets)]
    return found, refused


def first_of_groups(found: Sequence[Entrant], advice: Sequence[RuntimeAdvice] = ()) -> list[Entrant]:
    """The most promising entrant of each group: what is raced first. The order only matters when time is short.

    The fp32 ONNX comes first, since it runs nearly everywhere and is the baseline; then what the board's profile says
    is worth trying, what it says to avoid at the end; then the smaller files, which are the faster ones more often.
    """
    firsts: dict[tuple[str, str], Entrant] = {}
    for entrant in found:
        firsts.setdefault(entrant.group, entrant)
    return sorted(
        firsts.values(),
        key=lambda e: (not is_baseline_variant(e.variant), prior(e.variant, advice), e.variant.spec.size_bytes),
    )


def prior(variant: Variant, advice: Sequence[RuntimeAdvice]) -> int:
    """-1 for a runtime that the profile recommends for such a variant, 1 for one it advises against, else 0."""
    spec = variant.spec
    for item in advice:
        if (item.name, item.target) == (spec.runtime, spec.target) and item.precision in (None, spec.precision):
            return -1 if item.advice is Advice.TRY else 1
    return 0


def with_batches(found: Sequence[Entrant], signature: Signature) -> list[Entrant]:
    """For throughput: the two best bets of each group also with several samples at once, where the file lets them."""
    batched = [
        replace(entrant, options={**entrant.options, BATCH_OPTION: size}, rank=entrant.rank + len(BATCH_SIZES) * index)
        for index, size in enumerate(BATCH_SIZES, 1)
        for entrant in found
        if entrant.rank < 2 and takes_batches(entrant.variant, signature)
    ]
    return [*found, *batched]


def takes_batches(variant: Variant, signature: Signature) -> bool:
    """Whether the leading axis is open, the same for all inputs, in the signature and in the file."""
    axes = {spec.shape[0] if spec.shape else 0 for spec in signature.inputs}
    frozen = any(isinstance(binding.shape[0], int) for binding in variant.spec.inputs if binding.shape)
    return len(axes) == 1 and isinstance(next(iter(axes)), str) and not frozen


def is_baseline_variant(variant: Variant) -> bool:
    """Whether this is the ONNX file that ONNX Runtime runs as everybody would: fp32, or a bare file as it was given."""
    spec = variant.spec
    plain = spec.precision == BASELINE_PRECISION or BARE_NOTE in spec.notes
    return plain and (spec.runtime, spec.target) == (BASELINE_RUNTIME, "cpu")


def default_baseline(found: list[Entrant], backend_of: Callable[[str], Backend]) -> Entrant | None:
    """ONNX Runtime as a user gets it who sets nothing; None without the ONNX file or the runtime."""
    variant = next((entrant.variant for entrant in found if is_baseline_variant(entrant.variant)), None)
    return None if variant is None else Entrant(variant, backend_of(BASELINE_RUNTIME).default_options())


def _option_sets(
    variant: Variant, present: set[str], device: Capabilities, threads: int, backend_of: Callable[[str], Backend]
) -> tuple[list[dict[str, OptionValue]], str]:
    reasons = refusals(variant.spec, device)
    if reasons:
        return [], "; ".join(reasons)
    if variant.name not in present:
        return [], "its files were not fetched"
    try:
        sets = backend_of(variant.spec.runtime).option_sets(variant.spec, device, threads)
    except BackendError as error:
        return [], str(error)
    if not sets:
        return [], f"{variant.spec.runtime} has no provider for target {variant.spec.target} on this device"
    return sets, ""


def _refused(variant: Variant, reason: str) -> CandidateEvidence:
    spec = variant.spec
    return CandidateEvidence(
        name=spec.name, variant=spec.name, runtime=spec.runtime, precision=spec.precision, target=spec.target,
        status="refused", reason=reason,
    )  # fmt: skip
