"""One rollout in words: state and reason, then each wave as a bar with its counts and thresholds. Pure."""

from __future__ import annotations

from rich.cells import cell_len

from fleet.http.api_types import RolloutView, WaveView
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models import wording
from fleet.tui.view_models.bars import tally_bar
from fleet.tui.view_models.rollout_rows import Rollout, state_mark, state_tone, why_text
from fleet.tui.view_models.spans import Line, Span, Tone
from fleet.tui.view_models.text_width import fit, paragraph

_WAVE_TONES = {
    "failed": Tone.BAD, "succeeded": Tone.GOOD, "running": Tone.BUSY, "soaking": Tone.BUSY, "accepted": Tone.BUSY,
    "aborted": Tone.BAD,
}  # fmt: skip
NAME, STATE, NUMBERS = 6, 11, 26
_WITH_THRESHOLDS = ("running", "soaking", "failed", "accepted")


def head_lines(shown: Rollout, width: int, now_ms: int, glyphs: Glyphs) -> list[Line]:
    """The top of the page, in lines of at most ``width`` cells."""
    rollout = shown.view
    lines = [_title(shown), *_state_lines(rollout, width, glyphs), _facts(rollout, now_ms, glyphs)]
    for wave in rollout.waves:
        lines += wave_lines(wave, width, glyphs, is_why_known=_tells(rollout.why, wave.why))
    return lines


def _tells(rollout_why: str | None, wave_why: str | None) -> bool:
    return wave_why is not None and wave_why in (rollout_why or "")


def _title(shown: Rollout) -> Line:
    rollout = shown.view
    signed = Span(" UNSIGNED", Tone.BAD) if shown.unsigned else Span("")
    bundle = f"{rollout.bundle} {rollout.version}"
    name: Line = () if rollout.name == bundle else (Span(f"{rollout.name}  ", Tone.STRONG),)
    return (*name, Span(bundle, Tone.STRONG), signed, Span(f"  {rollout.id}", Tone.FAINT))


def _state_lines(rollout: RolloutView, width: int, glyphs: Glyphs) -> list[Line]:
    tone = state_tone(rollout)
    why = why_text(rollout)
    state = f"{state_mark(rollout, glyphs)} {wording.state_text(rollout.state).upper()}"
    head: Line = (Span(state, tone), Span("  " if why else ""))
    return paragraph(head, why, width, tone if tone is Tone.BAD else Tone.PLAIN) if why else [head]


def _facts(rollout: RolloutView, now_ms: int, glyphs: Glyphs) -> Line:
    parts = []
    if rollout.matched is not None:
        parts.append(wording.count(rollout.matched, "device"))
    parts.append(f"at most {rollout.max_in_flight:,} in flight")
    if rollout.counts.stragglers:
        parts.append(f"{rollout.counts.stragglers:,} late")
    if rollout.counts.withdrawn:
        parts.append(f"{rollout.counts.withdrawn:,} withdrawn")
    if rollout.started_ms is not None:
        parts.append(f"started {wording.age(rollout.started_ms, now_ms)} ago")
    if rollout.finished_ms is not None and rollout.started_ms is not None:
        parts.append(f"took {wording.duration((rollout.finished_ms - rollout.started_ms) / 1000)}")
    return (Span(f" {glyphs.dot} ".join(parts), Tone.FAINT),)


def wave_lines(wave: WaveView, width: int, glyphs: Glyphs, *, is_why_known: bool = False) -> list[Line]:
    """A bar with counts; under a begun wave its shares against the thresholds, and why it is in its state."""
    tone = _WAVE_TONES.get(wave.state, Tone.FAINT)
    name = "tail" if wave.tail else f"wave {wave.number}"
    start = max(NAME, len(name)) + 1
    title = Span(name.ljust(start), Tone.STRONG)
    lines: list[Line] = [(title, *_bar_and_counts(wave, width - start, glyphs))]
    why_tone = tone if tone is Tone.BAD else Tone.FAINT
    if wave.state in _WITH_THRESHOLDS:
        lines += paragraph((Span(" " * start),), thresholds(wave, glyphs), width, why_tone)
    if wave.why and not is_why_known and wave.state in ("failed", "accepted", "skipped"):
        lines += paragraph((Span(" " * start),), wave.why, width, tone)
    return lines


def _bar_and_counts(wave: WaveView, width: int, glyphs: Glyphs) -> Line:
    tone = _WAVE_TONES.get(wave.state, Tone.FAINT)
    counts = wave.counts
    state = Span(f"{fit(wording.state_text(wave.state), STATE, glyphs)} ", tone)
    if not counts.targeted and counts.withdrawn:
        return (state, Span(f"{wording.count(counts.withdrawn, 'device')} left it: sent back or canceled", Tone.FAINT))
    if wave.state in ("pending", "not_begun") and not counts.targeted:
        return (state, Span(f"size {wave.policy.size}", Tone.FAINT))
    numbers: Line = (
        Span(f" {counts.succeeded:,}", Tone.GOOD if counts.succeeded else Tone.FAINT),
        Span(f"/{counts.targeted:,} ok "),
        Span(f"{counts.failed:,} failed ", Tone.BAD if counts.failed else Tone.FAINT),
        Span(f"{counts.in_flight:,} in flight", Tone.BUSY if counts.in_flight else Tone.FAINT),
    )
    room = width - STATE - 1 - max(NUMBERS + 5, sum(cell_len(span.text) for span in numbers))
    bar = tally_bar(counts, min(room, 40), glyphs) if room >= 4 else ()
    return (state, *bar, *numbers)


def thresholds(wave: WaveView, glyphs: Glyphs) -> str:
    """What the wave is judged by, exactly: ``succeeded >=`` and ``failed >``, of which devices."""
    policy, counts = wave.policy, wave.counts
    base = counts.targeted if policy.denominator.value == "targeted" else counts.contacted
    parts = [
        f"ok {wording.percent(counts.succeeded, base)} (needs {glyphs.at_least} {policy.success_threshold_pct:g} %)",
        f"failed {wording.percent(counts.failed, base)} (allows {glyphs.at_most} {policy.error_threshold_pct:g} %)",
    ]
    if policy.denominator.value != "targeted":
        parts.append(f"of {base:,} {policy.denominator.value}")
    if policy.min_executed > 1:
        parts.append(f"early verdict from {policy.min_executed:,}")
    if policy.soak_s:
        parts.append(f"soak {wording.duration(policy.soak_s)}")
    return f" {glyphs.dot} ".join(parts)
