"""One CPU budget for all models of the device: how many threads each may use. Pure.

A model that is asked for takes part; one that sleeps (less than a hundredth of a CPU over the last minute) uses no
CPU, so its threads are not counted until it wakes. Threads of those awake are never more than the budget together,
except that each has one.
"""

from __future__ import annotations

from collections.abc import Mapping

AWAKE_CPUS, ASLEEP_CPUS = 0.01, 0.005
WORTH_MOVING = 1.25


def awake(demand: Mapping[str, float], before: frozenset[str]) -> frozenset[str]:
    """The models whose demand in CPUs counts; one that was awake falls asleep later than it woke."""
    return frozenset(
        name for name, cpus in demand.items() if cpus >= (ASLEEP_CPUS if name in before else AWAKE_CPUS)
    )  # fmt: skip


def allocate(
    demand: Mapping[str, float], awake_models: frozenset[str], budget_threads: int, before: Mapping[str, int]
) -> dict[str, int]:
    """Threads by model. ``demand``: arrival times cost, in CPUs. ``before``: kept while it is nearly as good.

    Each further thread goes where a thread has the most to do, which makes the most that one has to do least.
    """
    budget = max(1, budget_threads)
    names = sorted(awake_models)
    shares = dict.fromkeys(names, 1)
    for _ in range(budget - len(names)):
        busiest = max(names, key=lambda name: demand[name] / shares[name], default=None)
        if busiest is None:
            break
        shares[busiest] += 1
    earlier = {name: before[name] for name in names if name in before}
    if _fits(earlier, names, budget) and _heaviest(earlier, demand) <= WORTH_MOVING * _heaviest(shares, demand):
        shares = earlier
    return {name: min(budget, shares.get(name, budget)) for name in demand}


def _fits(shares: Mapping[str, int], names: list[str], budget: int) -> bool:
    return len(shares) == len(names) and sum(shares.values()) == max(budget, len(names))


def _heaviest(shares: Mapping[str, int], demand: Mapping[str, float]) -> float:
    """The most that a thread has to do."""
    return max((demand[name] / threads for name, threads in shares.items()), default=0.0)
