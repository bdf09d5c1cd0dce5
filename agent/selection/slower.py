"""How much slower, in words: pure."""

from __future__ import annotations

MANY_TIMES = 2.0


def slower(ratio: float, name: str = "") -> str:
    """``ratio``: its time over that of ``name``, more than 0. Below twice as per cent, which is easier to read."""
    if ratio >= MANY_TIMES:
        return f"{ratio:.1f} times as slow" + (f" as {name}" if name else "")
    percent = percent_slower(ratio)
    if percent == "0 %":
        return "as fast" + (f" as {name}" if name else "")
    return f"{percent} {'slower' if ratio > 1 else 'faster'}" + (f" than {name}" if name else "")


def percent_slower(ratio: float) -> str:
    """The distance from equal, with one digit after the point where it is small."""
    percent = abs(ratio - 1) * 100
    return f"{percent:.0f} %" if percent >= 10 or percent < 0.05 else f"{round(percent, 1):g} %"
