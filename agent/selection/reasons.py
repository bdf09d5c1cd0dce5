"""The words of a choice: why this one, why not the others, why none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.selection.halving import EQUAL_WITHIN, Standing
from agent.selection.slower import slower
from edge_contracts.evidence import CandidateEvidence

_STATISTIC = {"latency": "p90", "throughput": "mean time", "memory": "p90"}


def raced_text(standing: Standing, winner: Standing, objective: str) -> str:
    """Why a measured candidate was not chosen."""
    ratio = standing.score / winner.score if winner.score > 0 else 1.0
    if objective == "memory":
        return f"{_STATISTIC[objective]} {ratio:.2f} times that of {winner.name}; memory decided"
    if ratio <= 1 + EQUAL_WITHIN:
        return f"within 1 % of {winner.name}, which uses no more threads"
    if standing.behind.low <= 1.0:
        return f"{slower(ratio, winner.name)}, within the noise"
    return slower(ratio, winner.name)


def why_chosen(
    objective: str, winner: Standing, table: Sequence[Standing], counts: Mapping[str, int], rounds: int,
    *, measured: int, decided: bool, ran_out_of_time: bool, budget_s: float,
) -> str:  # fmt: skip
    """One or two sentences. ``table``: those that were in the race to its end, best first. ``measured``: how many have
    a time.
    """
    text = f"{winner.name}: {_merit(objective, winner, table)} of {measured} measured candidates "
    text += f"in {rounds} interleaved rounds"
    rivals = [standing for standing in table if standing.name != winner.name]
    if rivals:
        rival = rivals[0]
        text += f"; next {rival.name}, {slower(rival.score / winner.score)}" if winner.score > 0 else ""
    if table and table[0].name != winner.name and objective != "memory":
        text += f"; {table[0].name} is less than 1 % faster with more threads"
    out = [f"{counts[status]} {status}" for status in ("refused", "quarantined") if counts.get(status)]
    text += f". {' and '.join(out)}." if out else "."
    if ran_out_of_time:
        text += f" The time for the race ({budget_s:g} s) was over before all were tried: best of what was measured."
    elif not decided and rivals:
        text += " The first are within the noise of each other."
    return text


def switched_text(old: str, ratio: float) -> str:
    """Why the winner of the race was not taken after all."""
    return f"won the race, but was {slower(ratio, 'tuned ONNX Runtime')} in the final run ({old})"


def failure_code(lines: Sequence[CandidateEvidence], wrong: Sequence[str], crashed: Sequence[str]) -> str:
    """The error code when nothing is left: see agent.errors.NoCandidate."""
    ran = {line.name for line in lines if line.latency is not None or line.accuracy is not None} - set(wrong)
    if wrong and not ran:
        return "golden_mismatch"
    never_ran = ("quarantined", "halved", "not_tried")
    if crashed and not wrong and all(line.status in never_ran for line in lines if line.options):
        return "crash"
    if not any(line.options for line in lines):
        return "incompatible"
    return "no_candidate"


def failure_text(code: str, lines: Sequence[CandidateEvidence]) -> str:
    """One line that names the first reason of each kind."""
    heads = {
        "golden_mismatch": "every variant that runs here answers the goldens wrongly",
        "incompatible": "no variant fits this device",
        "crash": "every variant crashed or hung here",
        "no_candidate": "no variant runs here and answers right",
    }
    told = [
        f"{line.name}: {line.reason}" for line in lines if line.status in ("refused", "quarantined") and line.reason
    ]
    return f"{heads[code]} ({'; '.join(told[:3])}{'; ...' if len(told) > 3 else ''})" if told else heads[code]


def _merit(objective: str, winner: Standing, table: Sequence[Standing]) -> str:
    if objective == "memory":
        return "least memory"
    if table and table[0].name != winner.name:
        return f"fewest threads within 1 % of the best {_STATISTIC[objective]} ({winner.score / 1e3:.3f} ms)"
    return f"lowest {_STATISTIC[objective]} ({winner.score / 1e3:.3f} ms)"
