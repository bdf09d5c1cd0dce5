"""States and choices in the words an operator reads. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from edge_contracts.evidence import ChoiceEvidence, OptionValue

_THREAD_OPTIONS = ("threads", "num_threads", "intra_op_num_threads", "inference_num_threads", "INFERENCE_NUM_THREADS")


def state_text(state: str) -> str:
    """A state without the marks of the API: "rolled back"."""
    return state.replace("_", " ")


def count(number_of: int, noun: str) -> str:
    """Such as "1 device" and "3,000 devices"."""
    return f"{number_of:,} {noun}" if number_of == 1 else f"{number_of:,} {noun}s"


def significant(value: float) -> str:
    """Three significant digits without an exponent: "0.0267", "0.251", "9.99", "1234"."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.2e}")))))
    return f"{value:.{min(digits, 6)}f}"


def threads_of(options: Mapping[str, OptionValue]) -> int | None:
    """How many threads the options ask for, whatever the runtime calls them; None: they do not say."""
    threads = next((options[key] for key in _THREAD_OPTIONS if key in options), None)
    return int(threads) if isinstance(threads, int | float) else None


def has_choice(evidence: ChoiceEvidence) -> bool:
    """Whether a candidate was chosen at all; evidence of a refusal has a chosen one without a runtime."""
    return bool(evidence.chosen.runtime) and evidence.chosen.status == "chosen"


def short_choice(evidence: ChoiceEvidence) -> str:
    """For example "onnxruntime int8, 1 thread: 1.62x ORT default"; the evidence itself says why at length."""
    chosen = evidence.chosen
    threads = threads_of(chosen.options)
    text = f"{chosen.runtime} {chosen.precision}" + (f", {count(threads, 'thread')}" if threads else "")
    ratio = evidence.ratio_vs_onnxruntime_default
    return text if ratio is None else f"{text}: {ratio:.2f}x ORT default"


def shortened(reason: str | None, evidence: ChoiceEvidence | None) -> str | None:
    """``reason`` with the long words of the choice, where it repeats them, replaced by the short ones.

    A device that found nothing to choose says why in the same place: those words stay.
    """
    if reason is None or evidence is None or not evidence.why or not has_choice(evidence):
        return reason
    return reason.replace(evidence.why, short_choice(evidence))
