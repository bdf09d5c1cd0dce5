"""Why a device serves with the backend it chose: every candidate, measured or refused. Pure."""

from __future__ import annotations

from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence, Latency
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models import wording
from fleet.tui.view_models.spans import Line, Span, Tone
from fleet.tui.view_models.text_width import fit, paragraph

_ORDER = ("chosen", "raced", "dropped", "not tried", "refused", "quarantined")
_TONES = {"chosen": Tone.GOOD, "refused": Tone.FAINT, "quarantined": Tone.BAD}
STATUS, NUMBER = 12, 8


def choice_lines(evidence: ChoiceEvidence, width: int, glyphs: Glyphs) -> list[Line]:
    """The reason, then the candidates: best first, those without a time after them with the reason."""
    lines = paragraph((Span(fit("choice", 9, glyphs), Tone.FAINT),), _why(evidence), width)
    name_width = max(12, width - 2 - STATUS - 3 * NUMBER)
    lines.append(_header(name_width, glyphs))
    for candidate in sorted(_all(evidence), key=_rank):
        lines += _candidate_lines(candidate, name_width, width, glyphs)
    for name, latency in sorted(evidence.baselines.items()):
        lines.append(_baseline(name, latency, name_width, glyphs))
    return lines


def _why(evidence: ChoiceEvidence) -> str:
    how = f"from an earlier race with the same facts ({evidence.rounds} rounds)" if evidence.from_cache else (
        f"raced {evidence.rounds} rounds in {evidence.seconds:.1f} s"
    )  # fmt: skip
    budget = f", {wording.cpus(evidence.budget_cpus)}" if evidence.budget_cpus is not None else ""
    return f"{evidence.why} (for {evidence.objective}{budget}; {how})"


def status_text(candidate: CandidateEvidence) -> str:
    """The status; of those that did not get to the end of the race, whether they were in it at all."""
    if candidate.status == "halved":
        return "not tried" if candidate.latency is None else "dropped"
    return wording.state_text(candidate.status)


def _all(evidence: ChoiceEvidence) -> list[CandidateEvidence]:
    """The candidates with the chosen one among them, once."""
    others = [c for c in evidence.candidates if c.status != "chosen"]
    return [evidence.chosen, *others]


def _rank(candidate: CandidateEvidence) -> tuple[int, float, str]:
    status = status_text(candidate)
    place = _ORDER.index(status) if status in _ORDER else len(_ORDER)
    return place, candidate.latency.p90_ms if candidate.latency else float("inf"), candidate.name


def _header(name_width: int, glyphs: Glyphs) -> Line:
    columns = [fit("  STATUS", STATUS + 2, glyphs), fit("CANDIDATE", name_width, glyphs)]
    columns += [fit(title, NUMBER, glyphs, right=True) for title in ("P50 ms", "P90 ms", "ACC")]
    return (Span("".join(columns), Tone.FAINT),)


def _candidate_lines(candidate: CandidateEvidence, name_width: int, width: int, glyphs: Glyphs) -> list[Line]:
    mark = {"chosen": glyphs.good, "quarantined": glyphs.bad, "refused": glyphs.bad}.get(candidate.status, glyphs.idle)
    tone = _TONES.get(candidate.status, Tone.PLAIN)
    name_tone = Tone.STRONG if candidate.status == "chosen" else tone
    head: Line = (Span(f"{mark} ", tone), Span(fit(status_text(candidate), STATUS, glyphs), tone))
    if candidate.latency is None:
        name = f"{candidate.name}: " if candidate.reason else candidate.name
        return paragraph((*head, Span(name, name_tone)), candidate.reason or "", width, tone, hanging=STATUS + 2)
    numbers = (
        wording.milliseconds(candidate.latency.p50_ms),
        wording.milliseconds(candidate.latency.p90_ms),
        wording.share(candidate.accuracy.value if candidate.accuracy else None),
    )
    cells = [Span(fit(value, NUMBER, glyphs, right=True), tone) for value in numbers]
    lines: list[Line] = [(*head, Span(fit(candidate.name, name_width, glyphs), name_tone), *cells)]
    if candidate.reason and candidate.status != "chosen":
        lines += paragraph((Span(" " * (STATUS + 2)),), candidate.reason, width, Tone.FAINT)
    return lines


def _baseline(name: str, latency: Latency, name_width: int, glyphs: Glyphs) -> Line:
    numbers = (wording.milliseconds(latency.p50_ms), wording.milliseconds(latency.p90_ms), "")
    text = fit("baseline", STATUS, glyphs) + fit(name, name_width, glyphs)
    return (
        Span(f"{glyphs.idle} {text}", Tone.FAINT),
        *(Span(fit(value, NUMBER, glyphs, right=True), Tone.FAINT) for value in numbers),
    )
