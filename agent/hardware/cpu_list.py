"""The kernel's list form of CPU numbers: "0,3-5". Pure."""

from __future__ import annotations

from collections.abc import Iterable

MAX_CPU_ID = 8191
"""CONFIG_NR_CPUS never exceeds 8192; a larger number is a damaged file, not a machine."""


def parse(text: str) -> list[int]:
    """CPU ids in ascending order; commas or blanks separate, "3-5" is a range. Raises ValueError on anything else."""
    ids: set[int] = set()
    for item in text.replace(",", " ").split():
        first, dash, last = item.partition("-")
        low = int(first)
        high = int(last) if dash else low
        if not 0 <= low <= high <= MAX_CPU_ID:
            raise ValueError(f"not a CPU range: {item!r}")
        ids.update(range(low, high + 1))
    return sorted(ids)


def render(ids: Iterable[int]) -> str:
    """The shortest kernel form of these ids; parse(render(x)) == sorted(set(x))."""
    runs: list[list[int]] = []
    for cpu in sorted(set(ids)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
