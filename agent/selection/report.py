"""``mindie bench --report``: one self-contained HTML page about a race. Pure; no script, nothing is loaded."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from agent.selection.candidates import option_words
from agent.selection.explain import explain
from agent.selection.report_charts import Point, distributions, lines_over_threads, scatter
from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence

MOST_BOXES = 24
STYLE = """
:root{--ink:#1c2430;--soft:#667085;--line:#d5dae3;--paper:#fff;--box:#7aa2d6;--mark:#e07b39}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--line:#344054;--paper:#151a22;--box:#4f7fbf}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:900px;margin:2rem auto;
padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}pre{white-space:pre-wrap;font-size:13px}
table{border-collapse:collapse;width:100%;font-size:13px}td,th{border-bottom:1px solid var(--line);padding:4px 8px;
text-align:left;vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto}
text{font-size:12px;fill:var(--ink)}.axis{fill:var(--soft)}.grid{stroke:var(--line)}.whisker,.tick{stroke:var(--soft)}
.median{stroke:var(--ink);stroke-width:2}.box{fill:var(--box)}.mark{fill:var(--mark)}.dot{fill-opacity:.75}
.series polyline{fill:none;stroke:currentColor;stroke-width:2}.series circle,.series text{fill:currentColor}
.s0{color:#2f6fb3}.s1{color:#e07b39}.s2{color:#3c8d5a}.s3{color:#9a56b0}.s4{color:#b0862c}.s5{color:#5d6b82}
p.note{color:var(--soft)}
"""


def page(
    model: str, evidence: ChoiceEvidence, samples_us: Mapping[str, Sequence[float]], sizes: Mapping[str, int]
) -> str:
    """``samples_us``: times by candidate or baseline. ``sizes``: bytes by variant."""
    chosen = evidence.chosen.name
    sections = [
        f"<h1>Race of {html.escape(model)}</h1><pre>{html.escape(explain(evidence).split(chr(10) * 2)[0])}</pre>",
        _distributions(samples_us, chosen), _threads(evidence), _memory(evidence, sizes), _table(evidence),
        _refused(evidence),
    ]  # fmt: skip
    head = f'<meta charset="utf-8"><title>Race of {html.escape(model)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(sections)}</body></html>\n'


def _distributions(samples_us: Mapping[str, Sequence[float]], chosen: str) -> str:
    measured = {name: values for name, values in list(samples_us.items())[-MOST_BOXES:] if values}
    if not measured:
        return ""
    note = (
        "Line: 5th to 99th percentile; box: 25th to 75th; thick stroke: median; thin tick: 90th. "
        "The chosen one and the baselines are from the final run."
    )
    return _section("Latency", note, distributions(measured, chosen))


def _threads(evidence: ChoiceEvidence) -> str:
    series: dict[str, list[tuple[int, float]]] = {}
    for line in evidence.candidates:
        threads = line.options.get("threads")
        if line.latency is not None and isinstance(threads, int):
            words = [word for word in option_words(line.options) if word != f"t{threads}"]
            series.setdefault(" ".join([line.variant, *words]), []).append((threads, line.latency.p90_ms))
    several = {name: points for name, points in series.items() if len({count for count, _ in points}) > 1}
    if not several:
        return ""
    return _section("Time against threads", "90th percentile.", lines_over_threads(several))


def _memory(evidence: ChoiceEvidence, sizes: Mapping[str, int]) -> str:
    points = [
        Point(line.name, line.latency.p90_ms, line.peak_rss_mb, float(sizes.get(line.variant, 0)),
              line.status == "chosen")
        for line in evidence.candidates if line.latency is not None and line.peak_rss_mb is not None
    ]  # fmt: skip
    if not points:
        return ""
    note = "Left is faster (90th percentile), low is leaner (peak memory of the whole process); area: size of the file."
    return _section("Size and memory against speed", note, scatter(points, "ms", "MB"))


def _table(evidence: ChoiceEvidence) -> str:
    rows = "".join(_row(line) for line in evidence.candidates if line.latency is not None)
    heads = "".join(f"<th>{head}</th>" for head in ("Candidate", "p50 ms", "p90 ms", "p99 ms", "MB", "Right", "Why"))
    return _section("All that was measured", "", f"<table><tr>{heads}</tr>{rows}</table>") if rows else ""


def _row(line: CandidateEvidence) -> str:
    latency = line.latency
    assert latency is not None
    numbers = [latency.p50_ms, latency.p90_ms, latency.p99_ms, line.peak_rss_mb]
    cells = "".join(f'<td class="n">{"" if value is None else f"{value:.4g}"}</td>' for value in numbers)
    right = f"{line.accuracy.value:.4f}" if line.accuracy is not None else ""
    return (
        f"<tr><td>{html.escape(line.name)}</td>{cells}<td class='n'>{right}</td>"
        f"<td>{html.escape(line.status)}: {html.escape(line.reason or '')}</td></tr>"
    )


def _refused(evidence: ChoiceEvidence) -> str:
    out = [line for line in evidence.candidates if line.latency is None]
    rows = "".join(
        f"<tr><td>{html.escape(line.name)}</td><td>{html.escape(line.status)}</td>"
        f"<td>{html.escape(line.reason or '')}</td></tr>"
        for line in out
    )
    return _section("Refused, in quarantine, or not tried", "", f"<table>{rows}</table>") if rows else ""


def _section(title: str, note: str, body: str) -> str:
    told = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f"<h2>{html.escape(title)}</h2>{told}{body}"
