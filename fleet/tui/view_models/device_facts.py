"""One device in words: what it is, what serves and why, what happened. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from fleet.http.api_types import DeviceDetail, DeviceView, EventView, ModelView
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models import wording
from fleet.tui.view_models.choice import choice_lines
from fleet.tui.view_models.device_rows import BUSY_STATES, model_trouble, online_mark
from fleet.tui.view_models.spans import BLANK, Line, Span, Tone
from fleet.tui.view_models.text_width import fit, paragraph

LABEL = 9
MAX_EVENTS = 100


def device_lines(
    detail: DeviceDetail, width: int, now_ms: int, glyphs: Glyphs, zone: tzinfo | None = None
) -> list[Line]:  # fmt: skip
    """The whole page, in lines of at most ``width`` cells."""
    device = detail.device
    lines = [_headline(device, now_ms, glyphs), *_fact_lines(device, width, now_ms, glyphs)]
    for model in device.models:
        lines += [BLANK, *model_lines(model, width, glyphs)]
        evidence = detail.evidence.get(model.name)
        lines += choice_lines(evidence, width, glyphs) if evidence else []
    if not device.models:
        lines += [BLANK, (Span("No model serves here yet.", Tone.FAINT),)]
    return [*lines, BLANK, *event_lines(detail.events, width, now_ms, glyphs, zone)]


def _headline(device: DeviceView, now_ms: int, glyphs: Glyphs) -> Line:
    mark = online_mark(device, glyphs)
    seen = "online" if device.online else f"offline, last seen {wording.age(device.last_seen_ms, now_ms)} ago"
    if not device.online and device.last_seen_ms is None:
        seen = "offline, never seen"
    state = Span("", Tone.PLAIN)
    if device.state != "active":
        state = Span(f"  {device.state.upper()}", Tone.BAD)
    return (mark, Span(" "), Span(device.id, Tone.STRONG), Span("  "), Span(seen, mark.tone), state)


def _fact_lines(device: DeviceView, width: int, now_ms: int, glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = []
    for label, value in _facts(device, now_ms, glyphs):
        if value:
            lines += labelled(label, value, width, glyphs)
    if device.throttled:
        lines += labelled("heat", "throttled: the chip is slowed by heat or power", width, glyphs, Tone.BUSY)
    return lines


def _facts(device: DeviceView, now_ms: int, glyphs: Glyphs) -> list[tuple[str, str]]:
    gap = f" {glyphs.dot} "
    names = (device.board, device.soc, device.cpu_model)
    board = gap.join(dict.fromkeys(part for part in names if part))
    limits = [
        f"{wording.cpus(device.budget_cpus)} to use" if device.budget_cpus is not None else "",
        f"{device.memory_mb:,} MB" if device.memory_mb is not None else "",
        f"{device.temp_c:.0f} C" if device.temp_c is not None else "",
    ]
    agent = [
        f"mindie {device.agent_version}" if device.agent_version else "",
        f"serves on port {device.serving_port}" if device.serving_port else "",
        f"{device.rss_mb:.0f} MB" if device.rss_mb is not None else "",
        f"{device.cpu_percent:.1f} % CPU" if device.cpu_percent is not None else "",
        f"enrolled {wording.age(device.enrolled_at_ms, now_ms)} ago" if device.enrolled_at_ms is not None else "",
    ]
    labels = " ".join(f"{name}={value}" for name, value in sorted(device.labels.items()))
    return [
        ("board", board or "unknown"),
        ("budget", gap.join(part for part in limits if part)),
        ("agent", gap.join(part for part in agent if part)),
        ("site", device.site),
        ("labels", labels),
    ]


def labelled(label: str, value: str, width: int, glyphs: Glyphs, tone: Tone = Tone.PLAIN) -> list[Line]:
    """``label`` in a column of its own, the value wrapped beside it."""
    return paragraph((Span(fit(label, LABEL, glyphs), Tone.FAINT),), value, width, tone)


def model_lines(model: ModelView, width: int, glyphs: Glyphs) -> list[Line]:
    """What serves under one model name, how fast, and how the last deployment went."""
    title: Line = (Span("MODEL ", Tone.FAINT), Span(model.name, Tone.STRONG))
    if model.version is None:
        lines: list[Line] = [(*title, Span("  nothing serves", Tone.FAINT))]
    else:
        signed = Span("  signed", Tone.GOOD) if model.signed else Span("  UNSIGNED", Tone.BAD)
        lines = [(*title, Span(f" {model.version}", Tone.STRONG), signed)]
    if model.backend is not None:
        lines += labelled("backend", _backend_text(model, glyphs), width, glyphs)
    lines += labelled("latency", _latency_text(model, glyphs), width, glyphs)
    if model.accuracy is not None:
        drop = "" if model.accuracy_drop is None else f", drop {model.accuracy_drop:.4f} against the source"
        accuracy = f"{model.accuracy_metric or 'accuracy'} {wording.share(model.accuracy)}{drop}"
        lines += labelled("accuracy", accuracy, width, glyphs)
    return lines + _deployment_lines(model, width, glyphs)


def _backend_text(model: ModelView, glyphs: Glyphs) -> str:
    backend = model.backend
    assert backend is not None
    threads = f" with {wording.count(backend.threads, 'thread')}" if backend.threads else ""
    provider = f" {glyphs.dot} {backend.provider}" if backend.provider else ""
    what = f"{backend.runtime} {backend.precision} on {backend.target}{threads}"
    return f"{what}{provider} {glyphs.dot} {backend.variant}"


def _latency_text(model: ModelView, glyphs: Glyphs) -> str:
    gap = f" {glyphs.dot} "
    parts = []
    if model.p90_ms is not None:
        served = f"served p50 {wording.milliseconds(model.p50_ms)} p90 {wording.milliseconds(model.p90_ms)} ms"
        parts.append(f"{served} over {wording.count(model.requests, 'request')}")
    if model.race_p90_ms is not None:
        race = f"race p50 {wording.milliseconds(model.race_p50_ms)} p90 {wording.milliseconds(model.race_p90_ms)} ms"
        parts.append(race)
    if model.ratio_vs_onnxruntime_default is not None:
        times = wording.ratio(model.ratio_vs_onnxruntime_default, glyphs.times)
        parts.append(f"{times} as fast as ONNX Runtime's defaults")
    return gap.join(parts) or "not measured yet"


def _deployment_lines(model: ModelView, width: int, glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = []
    trouble = model_trouble(model)
    if trouble is not None:
        lines += labelled("trouble", trouble, width, glyphs, Tone.BAD)
    elif model.state is not None:
        tone = Tone.BUSY if model.state in BUSY_STATES else Tone.GOOD if model.state == "committed" else Tone.PLAIN
        version = f" {model.attempted_version}" if model.attempted_version else ""
        reason = f": {model.reason}" if model.reason else ""
        lines += labelled("state", f"{wording.state_text(model.state)}{version}{reason}", width, glyphs, tone)
    if model.desired_version is not None and model.desired_version != model.version:
        lines += labelled("wanted", f"{model.name} {model.desired_version}", width, glyphs)
    if model.last_good_version is not None and model.last_good_version != model.version:
        lines += labelled("last good", f"{model.name} {model.last_good_version}", width, glyphs)
    return lines


def event_lines(
    events: Sequence[EventView], width: int, now_ms: int, glyphs: Glyphs, zone: tzinfo | None
) -> list[Line]:  # fmt: skip
    """Newest first."""
    lines: list[Line] = [(Span("EVENTS", Tone.FAINT), Span("" if events else "  none yet", Tone.FAINT))]
    for event in events[:MAX_EVENTS]:
        when = fit(wording.clock_time(event.at_ms, now_ms, zone), 11, glyphs)
        bad = any(word in event.kind for word in ("fail", "crash", "regress", "error", "quarantin"))
        head: Line = (Span(f" {when} ", Tone.FAINT), Span(f"{event.kind} ", Tone.BAD if bad else Tone.STRONG))
        lines += paragraph(head, event.text, width, hanging=13)
    if len(events) > MAX_EVENTS:
        lines.append((Span(f" and {len(events) - MAX_EVENTS} older ones", Tone.FAINT),))
    return lines
