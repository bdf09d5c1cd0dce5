"""What "best" means for each objective: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.selection.halving import EQUAL_WITHIN, Standing, fewest_threads

MEMORY_TIE_MB = 2.0


def race_fraction(objective: str) -> float | None:
    """The statistic that is raced: the mean (None) for throughput, else p90, which decides ties of memory too."""
    return None if objective == "throughput" else 0.9


def drops_on_the_way(objective: str) -> bool:
    """Whether being slow loses the race: not when memory decides."""
    return objective != "memory"


def best(
    objective: str, table: Sequence[Standing], threads: Mapping[str, int], peak_rss_mb: Mapping[str, float]
) -> Standing:
    """The winner of ``table`` (best score first, not empty)."""
    rows = list(table)
    if objective != "memory":
        return fewest_threads(rows, threads)
    least = min(peak_rss_mb[row.name] for row in rows)
    lean = [row for row in rows if peak_rss_mb[row.name] <= least * (1 + EQUAL_WITHIN) + MEMORY_TIE_MB]
    return min(lean, key=lambda row: row.score)
