"""The whole fleet on one page: what needs attention, then counts by bundle and board. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from fleet.http.api_types import DeviceView, Health, RolloutView
from fleet.http.row_words import done_text
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models import wording
from fleet.tui.view_models.bars import share_bar
from fleet.tui.view_models.device_rows import model_trouble
from fleet.tui.view_models.rollout_rows import STOPPED, state_mark, state_tone, why_text
from fleet.tui.view_models.spans import BLANK, Line, Span, Tone
from fleet.tui.view_models.text_width import cut, fit, paragraph
from fleet.tui.view_models.wording import state_text

NAME, BAR, MAX_ROWS, MAX_TROUBLES, MAX_ROLLOUTS = 20, 8, 8, 8, 5
MOVING = ("running", "rolling_back", "paused")
SIDE_BY_SIDE = 76


class FleetAnswer(NamedTuple):
    """What the page is made of."""

    health: Health
    devices: list[DeviceView]
    rollouts: list[RolloutView]


def overview_lines(answer: FleetAnswer, width: int, glyphs: Glyphs, *, is_old: bool = False) -> list[Line]:
    """The page, in lines of at most ``width`` cells. ``is_old``: the server is away, and nobody knows how it is now."""
    if is_old:
        lines = [_server_away(answer.health), _devices_away(answer.devices), BLANK]
    else:
        lines = [_server(answer.health), *_reasons(answer.health, width), _devices(answer.devices, glyphs), BLANK]
    lines += [*attention_lines(answer, width, glyphs, is_old=is_old), BLANK]
    lines += [*_rollouts(answer.rollouts, width, glyphs, is_old=is_old), BLANK]
    bundles = _table("BUNDLE SERVED", _bundles(answer.devices), glyphs)
    boards = _table("BOARD", Counter(device.board or "unknown" for device in answer.devices), glyphs)
    lines += beside(bundles, boards, width) if width >= SIDE_BY_SIDE else [*bundles, BLANK, *boards]
    return lines


def _server(health: Health) -> Line:
    broker = "broker connected" if health.broker_connected else "BROKER NOT CONNECTED: devices hear nothing"
    return (
        Span("server   ", Tone.FAINT),
        Span(f"mindfleet {health.version} "),
        Span(health.status, Tone.GOOD if health.status == "ok" else Tone.BAD),
        Span(", "),
        Span(broker, Tone.PLAIN if health.broker_connected else Tone.BAD),
        Span(f" (MQTT port {health.mqtt_port})", Tone.FAINT),
    )


def _server_away(health: Health) -> Line:
    state = Span("unknown: it does not answer", Tone.BAD)
    return (Span("server   ", Tone.FAINT), Span(f"mindfleet {health.version} "), state)


def _devices_away(devices: Sequence[DeviceView]) -> Line:
    return (Span("devices  ", Tone.FAINT), Span(f"{len(devices):,}  ", Tone.STRONG), Span("online: unknown", Tone.BAD))


def _rollouts(rollouts: Sequence[RolloutView], width: int, glyphs: Glyphs, *, is_old: bool) -> list[Line]:
    """The newest ones: those that move, then those that ended."""
    if not rollouts:
        return [(Span("ROLLOUTS  none yet", Tone.FAINT),)]
    lines: list[Line] = [(Span("ROLLOUTS, as last heard" if is_old else "ROLLOUTS", Tone.FAINT),)]
    for rollout in sorted(rollouts, key=lambda rollout: rollout.state not in MOVING)[:MAX_ROLLOUTS]:
        tone = state_tone(rollout)
        state = state_text(rollout.state)
        mark = glyphs.idle if is_old else state_mark(rollout, glyphs)
        head = f"{mark} {fit(state, 12, glyphs)} {done_text(rollout.counts):>9} "
        room = max(8, width - cell_len(head))
        name = rollout.name if f"{rollout.bundle} {rollout.version}" in rollout.name else (
            f"{rollout.name}  {rollout.bundle} {rollout.version}"
        )  # fmt: skip
        why = f"  {rollout.id}  {why_text(rollout)}"
        lines.append((Span(head, tone), Span(cut(f"{name}{why}", room, glyphs))))
    return lines


def _reasons(health: Health, width: int) -> list[Line]:
    return [part for reason in health.reasons for part in paragraph((Span(" " * 9),), reason, width, Tone.BAD)]


def _devices(devices: Sequence[DeviceView], glyphs: Glyphs) -> Line:
    online = sum(device.online for device in devices)
    states = Counter(device.state for device in devices)
    spans = [
        Span("devices  ", Tone.FAINT),
        Span(f"{len(devices):,}  ", Tone.STRONG),
        Span(f"{glyphs.online} {online:,} online  ", Tone.GOOD if online else Tone.FAINT),
        Span(f"{glyphs.offline} {len(devices) - online:,} offline", Tone.BUSY if online < len(devices) else Tone.FAINT),
    ]
    for state, number in sorted(states.items()):
        if state != "active":
            spans.append(Span(f"  {number:,} {state}", Tone.BAD if state == "quarantined" else Tone.FAINT))
    throttled = sum(bool(device.throttled) for device in devices)
    return (*spans, Span(f"  {throttled:,} throttled", Tone.BUSY)) if throttled else tuple(spans)


def attention_lines(answer: FleetAnswer, width: int, glyphs: Glyphs, *, is_old: bool = False) -> list[Line]:
    """Rollouts that wait for somebody or fail, then devices in trouble."""
    lines: list[Line] = []
    for rollout in answer.rollouts:
        tone = state_tone(rollout)
        if rollout.state == "paused" or (tone is Tone.BAD and rollout.state not in STOPPED):
            state = state_text(rollout.state)
            text = f"{state}: {why_text(rollout)}" if why_text(rollout) else state
            head = (Span(f"{state_mark(rollout, glyphs)} ", tone), Span(f"rollout {rollout.name} ", Tone.STRONG))
            lines += paragraph(head, text, width, tone, hanging=2)
    every = ((device.id, model_trouble(model)) for device in answer.devices for model in device.models)
    troubles = [(device, trouble) for device, trouble in every if trouble]
    troubles += [(device.id, "quarantined") for device in answer.devices if device.state == "quarantined"]
    for device, trouble in troubles[:MAX_TROUBLES]:
        head = (Span(f"{glyphs.bad} ", Tone.BAD), Span(f"{device} ", Tone.STRONG))
        room = width - sum(cell_len(span.text) for span in head)
        lines.append((*head, Span(cut(trouble, max(8, room), glyphs), Tone.BAD)))
    if len(troubles) > MAX_TROUBLES:
        more = len(troubles) - MAX_TROUBLES
        lines.append((Span(f"  and {more:,} more: see the devices page, sorted by state", Tone.BAD),))
    if is_old:
        return [(Span("ATTENTION, as last heard", Tone.FAINT),), *lines] if lines else []
    if not lines:
        return [(Span(f"{glyphs.good} ", Tone.GOOD), Span("nothing needs attention", Tone.GOOD))]
    return [(Span("ATTENTION", Tone.FAINT),), *lines]


def _bundles(devices: Sequence[DeviceView]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for device in devices:
        served = [model for model in device.models if model.version is not None]
        for model in served:
            counts[f"{'' if model.signed else '!'}{model.name} {model.version}"] += 1
        if not served:
            counts["(none)"] += 1
    return counts


def _table(title: str, counts: Counter[str], glyphs: Glyphs) -> list[Line]:
    lines: list[Line] = [(Span(title, Tone.FAINT),)]
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    largest = ranked[0][1] if ranked else 0
    for name, number in ranked[:MAX_ROWS]:
        tone = Tone.BAD if name.startswith("!") else Tone.FAINT if name.startswith("(") else Tone.PLAIN
        bar = share_bar(number, largest, BAR, glyphs)
        lines.append((Span(f"{fit(name, NAME, glyphs)} ", tone), Span(bar, Tone.FAINT), Span(f"{number:>6,}")))
    rest = sum(number for _, number in ranked[MAX_ROWS:])
    if rest:
        lines.append((Span(f"{fit('(others)', NAME, glyphs)} {' ' * BAR}{rest:>6,}", Tone.FAINT),))
    return lines if ranked else [*lines, (Span(wording.NONE, Tone.FAINT),)]


def beside(left: Sequence[Line], right: Sequence[Line], width: int) -> list[Line]:
    """Two blocks side by side, the right one from the middle on."""
    middle = width // 2
    lines: list[Line] = []
    for row in range(max(len(left), len(right))):
        first = left[row] if row < len(left) else BLANK
        second = right[row] if row < len(right) else BLANK
        gap = middle - sum(cell_len(span.text) for span in first)
        lines.append((*first, Span(" " * gap), *second))
    return lines
