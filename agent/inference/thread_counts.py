"""Which thread counts are worth racing within a budget: pure."""

from __future__ import annotations

from edge_contracts.capabilities import Capabilities


def thread_counts(threads: int, device: Capabilities) -> list[int]:
    """Distinct counts from 1 to ``threads``, the most promising first: all, the big cores, half, and one at the end.

    A big.LITTLE chip is often fastest on its strong cores alone, since every parallel section ends with its slowest
    thread; a small model is often fastest on one.
    """
    counts = [threads, big_cores(device), threads // 2]
    several = dict.fromkeys(count for count in counts if count is not None and 1 < count <= threads)
    return [*several, 1]


def big_cores(device: Capabilities) -> int | None:
    """Physical cores of the strongest online clusters (by capacity, else frequency); None unless clusters differ."""
    clusters = [cluster for cluster in device.cpu.clusters if cluster.online is not False and cluster.cores]
    strengths = [cluster.capacity or cluster.max_mhz for cluster in clusters]
    if len(clusters) < 2 or any(strength is None for strength in strengths) or len(set(strengths)) < 2:
        return None
    strongest = max(strength for strength in strengths if strength is not None)
    near = [c for c, strength in zip(clusters, strengths, strict=True) if strength and strength >= 0.9 * strongest]
    return sum(cluster.cores or 0 for cluster in near)
