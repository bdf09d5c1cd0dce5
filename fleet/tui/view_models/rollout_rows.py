"""The table of rollouts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from fleet.http.api_types import BundleView, RolloutView
from fleet.http.row_words import done_text
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models import wording
from fleet.tui.view_models.columns import Column
from fleet.tui.view_models.spans import Cells, Line, Listing, Span, Tone
from fleet.tui.view_models.text_width import paragraph

COLUMNS = (
    Column("name", "ROLLOUT", 14, 26),
    Column("bundle", "BUNDLE", 13, 20),
    Column("state", "STATE", 14),
    Column("progress", "DONE", 9, 11, right=True),
    Column("failed", "FAILED", 6, right=True),
    Column("age", "AGE", 6, right=True, priority=1),
    Column("why", "WHY", 10, 30, grows=True),
)
STOPPED = frozenset({"aborted", "rolled_back"})


class Rollout(NamedTuple):
    """A rollout and whether its bundle is unsigned."""

    view: RolloutView
    unsigned: bool


def with_signature(rollouts: Iterable[RolloutView], bundles: Iterable[BundleView]) -> list[Rollout]:
    """Each with the word of the registry; a bundle that is not there any more is as the rollout puts up with."""
    signed = {bundle.digest: bundle.signed for bundle in bundles}
    return [Rollout(view, not signed.get(view.digest, not view.allow_unsigned)) for view in rollouts]


def listing(rollouts: Sequence[Rollout], now_ms: int, glyphs: Glyphs) -> Listing:
    """One row for each rollout, as the server orders them: newest first."""
    names = Counter(rollout.view.name for rollout in rollouts)

    def cells_at(position: int) -> Cells:
        shown = rollouts[position]
        return cells(shown, now_ms, glyphs, with_id=names[shown.view.name] > 1)

    every = [cells_at(position) for position in range(len(rollouts))]
    widest = {
        column.key: max((cell_len(row[position].text) for row in every), default=0)
        for position, column in enumerate(COLUMNS)
        if column.key != "why"
    }
    return Listing([rollout.view.id for rollout in rollouts], cells_at, widest)


def cells(shown: Rollout, now_ms: int, glyphs: Glyphs, *, with_id: bool = False) -> Cells:
    """One row, in the order of COLUMNS. ``with_id``: others have the same name."""
    rollout = shown.view
    counts = rollout.counts
    tone = state_tone(rollout)
    over = rollout.state in ("succeeded", "aborted", "rolled_back")
    done = done_text(counts) if counts.targeted or over else wording.NONE
    name = f"{rollout.name} {rollout.id}" if with_id else rollout.name
    return (
        Span(name, Tone.STRONG if not over else Tone.PLAIN),
        bundle_span(shown),
        Span(f"{state_mark(rollout, glyphs)} {wording.state_text(rollout.state)}", tone),
        Span(done),
        Span(f"{counts.failed:,}" if counts.targeted else wording.NONE, Tone.BAD if counts.failed else Tone.FAINT),
        Span(wording.age(rollout.started_ms or rollout.created_ms, now_ms), Tone.FAINT),
        Span(why_text(rollout), tone if tone is Tone.BAD else Tone.PLAIN),
    )


def bundle_span(shown: Rollout) -> Span:
    """Which bundle. An unsigned one is red and begins with "!"."""
    name = f"{shown.view.bundle} {shown.view.version}"
    return Span(f"!{name}", Tone.BAD) if shown.unsigned else Span(name)


def about_lines(rollout: RolloutView, width: int, glyphs: Glyphs) -> list[Line]:
    """The row under the cursor in full: why it is in its state."""
    tone = state_tone(rollout)
    head: Line = (Span(f"{state_mark(rollout, glyphs)} {rollout.name} {wording.state_text(rollout.state)} ", tone),)
    return paragraph(head, why_text(rollout), width, tone if tone is Tone.BAD else Tone.PLAIN, hanging=2)


def state_tone(rollout: RolloutView) -> Tone:
    """BAD when it stopped because of failures or for good, BUSY when it moves or waits for somebody."""
    if rollout.state in STOPPED or (rollout.state in ("paused", "rolling_back") and has_failed(rollout)):
        return Tone.BAD
    if rollout.state == "succeeded":
        return Tone.GOOD
    return Tone.FAINT if rollout.state == "draft" else Tone.BUSY


def has_failed(rollout: RolloutView) -> bool:
    """Whether a wave failed."""
    return any(wave.state == "failed" for wave in rollout.waves) or rollout.counts.failed > 0


def state_mark(rollout: RolloutView, glyphs: Glyphs) -> str:
    tone = state_tone(rollout)
    if rollout.state == "paused" and tone is Tone.BUSY:
        return glyphs.held
    return {Tone.BAD: glyphs.bad, Tone.GOOD: glyphs.good, Tone.BUSY: glyphs.busy}.get(tone, glyphs.idle)


def why_text(rollout: RolloutView) -> str:
    """Why it is in its state; for one that moves, where it is."""
    if rollout.state != "running":
        return rollout.why or ("not started" if rollout.state == "draft" else "")
    if rollout.awaiting_late:
        return "waiting for late devices"
    for wave in rollout.waves:
        if wave.state in ("running", "soaking"):
            name = "tail" if wave.tail else f"wave {wave.number}"
            planned = sum(not each.tail for each in rollout.waves)
            return f"{name} of {planned} {wave.state}" if not wave.tail else f"{name} {wave.state}"
    return rollout.why or ""
