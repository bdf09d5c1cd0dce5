"""The table of one rollout's devices. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from fleet.http.api_types import RolloutDeviceView
from fleet.http.row_words import row_state, without_sent_back
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models import wording
from fleet.tui.view_models.columns import Column
from fleet.tui.view_models.device_rows import BUSY_STATES, FAILED_STATES
from fleet.tui.view_models.spans import Cells, Line, Listing, Span, Tone
from fleet.tui.view_models.text_width import paragraph

COLUMNS = (
    Column("online", "", 1),
    Column("device", "DEVICE", 12, 24),
    Column("wave", "WAVE", 4, right=True),
    Column("state", "STATE", 13, 15),
    Column("since", "SINCE", 6, right=True, priority=1),
    Column("reason", "REASON", 10, 40, grows=True),
)


def key_of(row: RolloutDeviceView) -> str:
    """Unique within a rollout: a device may be in it several times (attempts, sent back)."""
    return f"{row.device}\n{row.deployment}"


def device_of(key: str) -> str:
    return key.partition("\n")[0]


def in_order(rows: Sequence[RolloutDeviceView]) -> list[RolloutDeviceView]:
    """Failed ones first, then those under way, then by wave as the server orders them; each sent-back device once."""
    return sorted(without_sent_back(rows), key=lambda row: 0 if is_bad(row) else 1 if row.state in BUSY_STATES else 2)


def is_bad(row: RolloutDeviceView) -> bool:
    return row.state in FAILED_STATES or row.regressed is not None


def listing(rows: Sequence[RolloutDeviceView], tail: int | None, now_ms: int, glyphs: Glyphs) -> Listing:
    """``tail``: the number of the tail wave, if it is shown."""
    rows = in_order(rows)
    needs = {"device": max((cell_len(row.device) for row in rows), default=0)}
    return Listing([key_of(row) for row in rows], lambda position: cells(rows[position], tail, now_ms, glyphs), needs)


def cells(row: RolloutDeviceView, tail: int | None, now_ms: int, glyphs: Glyphs) -> Cells:
    """One row, in the order of COLUMNS."""
    tone = _tone(row)
    return (
        Span(glyphs.online, Tone.GOOD) if row.online else Span(glyphs.offline, Tone.BUSY),
        Span(row.device, Tone.STRONG),
        Span("tail" if row.wave == tail else str(row.wave)),
        Span(row_state(row), tone),
        Span(wording.age(row.changed_ms or row.asked_ms, now_ms), Tone.FAINT),
        Span(reason_text(row), tone if tone is Tone.BAD else Tone.PLAIN),
    )


def _tone(row: RolloutDeviceView) -> Tone:
    if is_bad(row):
        return Tone.BAD
    if row.state == "committed":
        return Tone.GOOD
    return Tone.BUSY if row.state in BUSY_STATES else Tone.FAINT


def about_lines(row: RolloutDeviceView, width: int) -> list[Line]:
    """The row under the cursor in full, when it has a reason."""
    reason, tone = reason_text(row), _tone(row)
    if not reason:
        return []
    head: Line = (Span(f"{row.device} {row_state(row)} ", tone),)
    return paragraph(head, reason, width, tone if tone is Tone.BAD else Tone.PLAIN, hanging=2)


def reason_text(row: RolloutDeviceView) -> str:
    """The reason; what else is special comes before it."""
    parts = []
    if row.regressed:
        parts.append(f"regressed: {row.regressed}")
    if row.attempt > 1:
        parts.append(f"attempt {row.attempt}")
    if row.straggler:
        parts.append("late")
    if row.state == "waiting" and not row.online:
        parts.append("offline")
    return ", ".join([*parts, row.reason] if row.reason else parts)
