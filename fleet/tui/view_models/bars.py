"""Bars of a fixed width whose parts add up to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.domain.wave import Tally
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models.spans import Line, Span, Tone


def portions(counts: Sequence[int], width: int) -> list[int]:
    """``width`` cells shared by ``counts``; whatever is not zero gets at least one while there are enough."""
    total = sum(counts)
    if not total or width < 1:
        return [0] * len(counts)
    exact = [count * width / total for count in counts]
    cells = [max(1, int(value)) if value else 0 for value in exact]
    while sum(cells) > width:
        cells[max(range(len(cells)), key=lambda i: (cells[i] > 1, cells[i] - exact[i], cells[i]))] -= 1
    while sum(cells) < width:
        cells[max(range(len(cells)), key=lambda i: exact[i] - cells[i])] += 1
    return cells


def tally_bar(counts: Tally, width: int, glyphs: Glyphs) -> Line:
    """Succeeded, failed, in flight, still to come, among the devices that count."""
    to_come = max(0, counts.targeted - counts.succeeded - counts.failed - counts.in_flight)
    parts = portions((counts.succeeded, counts.failed, counts.in_flight, to_come), width)
    marks = (glyphs.bar_good, glyphs.bar_bad, glyphs.bar_busy, glyphs.bar_idle)
    tones = (Tone.GOOD, Tone.BAD, Tone.BUSY, Tone.FAINT)
    spans = [Span(mark * cells, tone) for mark, cells, tone in zip(marks, parts, tones, strict=True) if cells]
    return tuple(spans) if spans else (Span(glyphs.bar_idle * width, Tone.FAINT),)


def share_bar(count: int, largest: int, width: int, glyphs: Glyphs) -> str:
    """A plain bar, padded to ``width``; at least one cell for what is not zero."""
    cells = 0 if not count else max(1, round(width * count / max(1, largest)))
    return (glyphs.bar_good * cells).ljust(width)
