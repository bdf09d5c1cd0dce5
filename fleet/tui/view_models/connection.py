"""What the screens say about a server that does not answer. Pure."""

from __future__ import annotations

from fleet.tui.view_models.spans import Line, Span, Tone
from fleet.tui.view_models.wording import duration


def connection_line(trouble: str | None, answered_s: float | None, now_s: float) -> Line | None:
    """The trouble and how old what is shown is (answered_s: when it came; None: never). None: all is well."""
    if trouble is None:
        return None
    shown = "" if answered_s is None else f"; data is {duration(now_s - answered_s)} old"
    return (Span(f"{trouble}, trying again{shown}", Tone.BAD),)


def unreachable_text(reason: str) -> str:
    return f"server does not answer: {reason}"


def refused_text(detail: str) -> str:
    return f"server refuses: {detail}"
