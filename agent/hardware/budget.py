"""The CPU budget: what all engines and trials of one device may use together. Pure."""

from __future__ import annotations

from typing import NamedTuple

from edge_contracts.capabilities import BudgetSource


class Budget(NamedTuple):
    """`cpus` may be a fraction (a container with half a CPU); None when nothing about the CPUs is known."""

    cpus: float | None = None
    source: BudgetSource = BudgetSource.UNKNOWN


def combine(online: int | None, affinity: int | None, quota: float | None) -> Budget:
    """The smallest of the three; a tie is told by the simpler cause (cores, then affinity, then quota)."""
    limits = [
        Budget(float(limit), source)
        for limit, source in (
            (online, BudgetSource.CORES),
            (affinity, BudgetSource.AFFINITY),
            (quota, BudgetSource.CGROUP),
        )
        if limit is not None and limit > 0
    ]
    return min(limits, key=lambda limit: limit.cpus or 0.0, default=Budget())


def threads_of(budget_cpus: float | None) -> int:
    """Threads that a runtime may start: whole CPUs of the budget, at least one; one when the budget is unknown."""
    return max(1, int(budget_cpus)) if budget_cpus is not None else 1
