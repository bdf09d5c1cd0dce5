"""The table of devices: one row for each model on a device, or one for a device without any. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len

from edge_contracts.deployment import FAILURES, IN_FLIGHT
from fleet.http.api_types import DeviceView, ModelView
from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models import wording
from fleet.tui.view_models.columns import Column
from fleet.tui.view_models.spans import Cells, Line, Listing, Span, Tone
from fleet.tui.view_models.text_width import clean, paragraph

COLUMNS = (
    Column("online", "", 1),
    Column("device", "DEVICE", 10, 24),
    Column("board", "BOARD", 10, 20, priority=2),
    Column("cpus", "CPUS", 4, right=True, priority=3),
    Column("bundle", "BUNDLE", 12, 20),
    Column("runtime", "RUNTIME", 8, 11, priority=1),
    Column("precision", "PREC", 4, priority=1),
    Column("threads", "TH", 2, right=True, priority=4),
    Column("p50", "P50 ms", 7, right=True, priority=7, extra=True),
    Column("p90", "P90 ms", 7, right=True, priority=1),
    Column("ratio", "vs ORT", 6, right=True, priority=5, extra=True),
    Column("accuracy", "ACC", 5, right=True, priority=6, extra=True),
    Column("state", "STATE", 12, grows=True),
)
FAILED_STATES = frozenset(state.value for state in FAILURES)
BUSY_STATES = frozenset(state.value for state in IN_FLIGHT)
_KEY_SEPARATOR = "\n"
_DIGITS = re.compile(r"([0-9]{1,18})")


class Entry(NamedTuple):
    """A row before it is words. ``key`` stays the same from poll to poll."""

    key: str
    device: DeviceView
    model: ModelView | None


def entries(devices: Iterable[DeviceView]) -> list[Entry]:
    """The rows of all devices. The first model of a device has the device's id as key."""
    found = []
    for device in devices:
        found.append(Entry(device.id, device, device.models[0] if device.models else None))
        for model in device.models[1:]:
            found.append(Entry(f"{device.id}{_KEY_SEPARATOR}{model.name}", device, model))
    return found


def device_of(key: str) -> str:
    """The device that a row's key belongs to."""
    return key.partition(_KEY_SEPARATOR)[0]


def matching(rows: Iterable[Entry], search: str) -> list[Entry]:
    """Those that contain every word of ``search``, in whatever column, label or fact."""
    words = search.lower().split()
    if not words:
        return list(rows)
    return [entry for entry in rows if all(word in _haystack(entry) for word in words)]


def _haystack(entry: Entry) -> str:
    device, model = entry.device, entry.model
    parts = [
        device.id, device.site, device.state, "online" if device.online else "offline", device.board, device.soc,
        device.cpu_model, *(f"{name}={value}" for name, value in device.labels.items()),
    ]  # fmt: skip
    if model is not None:
        parts += [model.name, model.version, model.state, model.reason, "" if model.signed else "unsigned"]
        parts += [model.regressed and "regressed", model.attempted_version, wording.state_text(model.state or "")]
        if model.backend is not None:
            parts += [model.backend.runtime, model.backend.precision, model.backend.variant]
    return "\n".join(part for part in parts if part).lower()


def ordered(rows: Iterable[Entry], column: str, *, descending: bool) -> list[Entry]:
    """Sorted by a column's value; rows without a value come last both ways, equals by device."""
    value_of = _VALUES[column]
    known: list[Entry] = []
    unknown: list[Entry] = []
    for entry in sorted(rows, key=lambda entry: entry.key):
        (known if value_of(entry) not in (None, "") else unknown).append(entry)
    return sorted(known, key=value_of, reverse=descending) + unknown


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Orders "edge-9" before "edge-10" and "1.9.0" before "1.10.0"."""
    parts = _DIGITS.split(text.lower())
    return [(0, int(part)) if position % 2 else (1, part) for position, part in enumerate(parts) if part]


def _of_model(value: Callable[[ModelView], Any]) -> Callable[[Entry], Any]:
    return lambda entry: None if entry.model is None else value(entry.model)


def _of_backend(name: str) -> Callable[[Entry], Any]:
    return _of_model(lambda model: None if model.backend is None else getattr(model.backend, name))


_VALUES: dict[str, Callable[[Entry], Any]] = {
    "online": lambda entry: not entry.device.online,
    "device": lambda entry: _natural(entry.device.id),
    "board": lambda entry: entry.device.board,
    "cpus": lambda entry: entry.device.budget_cpus,
    "bundle": lambda entry: None if entry.model is None else (entry.model.name, _natural(entry.model.version or "")),
    "runtime": _of_backend("runtime"),
    "precision": _of_backend("precision"),
    "threads": _of_backend("threads"),
    "p50": _of_model(lambda model: model.p50_ms if model.p50_ms is not None else model.race_p50_ms),
    "p90": _of_model(lambda model: model.p90_ms if model.p90_ms is not None else model.race_p90_ms),
    "ratio": _of_model(lambda model: model.ratio_vs_onnxruntime_default),
    "accuracy": _of_model(lambda model: model.accuracy),
    "state": lambda entry: state_order(entry.device, entry.model),
}  # fmt: skip


def state_order(device: DeviceView, model: ModelView | None) -> tuple[int, str]:
    """What needs a look comes first: trouble, then what is under way, absent devices, the rest."""
    tone = state_span(device, model, 0).tone
    rank = 0 if tone is Tone.BAD else 1 if tone is Tone.BUSY else 2 if not device.online else 3
    return rank, (model.state if model and model.state else device.state)


def listing(rows: Sequence[Entry], now_ms: int, glyphs: Glyphs) -> Listing:
    """The rows as a table's content."""
    return Listing(
        [entry.key for entry in rows], lambda position: cells(rows[position], now_ms, glyphs), _needs(rows)
    )  # fmt: skip


def _needs(rows: Sequence[Entry]) -> dict[str, int]:
    """How wide names really are, so that short ones leave their room to others."""
    bundles = {entry.model and (entry.model.name, entry.model.version) for entry in rows}
    backends = [entry.model.backend for entry in rows if entry.model is not None]
    return {
        "device": max((cell_len(entry.device.id) for entry in rows), default=0),
        "board": max((cell_len(board) for board in {entry.device.board or "" for entry in rows}), default=0),
        "runtime": max((len(backend.runtime) for backend in backends if backend is not None), default=0),
        "bundle": max((1 + cell_len(f"{each[0]} {each[1]}") for each in bundles if each), default=0),
    }


def cells(entry: Entry, now_ms: int, glyphs: Glyphs) -> Cells:
    """One row, in the order of COLUMNS. A latency of the race, not of service, is faint and ends in "r"."""
    device, model = entry.device, entry.model
    backend = model.backend if model else None
    there = Tone.PLAIN if device.online else Tone.FAINT
    return (
        online_mark(device, glyphs),
        Span(clean(device.id), Tone.STRONG if device.online else Tone.FAINT),
        Span(device.board or wording.NONE, there),
        Span(wording.number(device.budget_cpus), there),
        bundle_span(model, there),
        Span(backend.runtime if backend else wording.NONE, there),
        Span(backend.precision if backend else wording.NONE, there),
        Span(wording.number(backend.threads if backend else None), there),
        _latency(model.p50_ms, model.race_p50_ms, there) if model else Span(wording.NONE, there),
        _latency(model.p90_ms, model.race_p90_ms, there) if model else Span(wording.NONE, there),
        Span(wording.ratio(model.ratio_vs_onnxruntime_default if model else None, glyphs.times), there),
        Span(wording.share(model.accuracy if model else None), there),
        state_span(device, model, now_ms),
    )


def _latency(live: float | None, race: float | None, tone: Tone) -> Span:
    if live is not None or race is None:
        return Span(wording.milliseconds(live), tone)
    return Span(f"{wording.milliseconds(race)}r", Tone.FAINT)


def online_mark(device: DeviceView, glyphs: Glyphs) -> Span:
    return Span(glyphs.online, Tone.GOOD) if device.online else Span(glyphs.offline, Tone.BUSY)


def bundle_span(model: ModelView | None, tone: Tone = Tone.PLAIN) -> Span:
    """What serves. An unsigned bundle is red and begins with "!"."""
    if model is None or model.version is None:
        return Span(wording.NONE, Tone.FAINT)
    name = f"{model.name} {model.version}"
    return Span(name, tone) if model.signed else Span(f"!{name}", Tone.BAD)


def state_span(device: DeviceView, model: ModelView | None, now_ms: int) -> Span:
    """The one thing to know: trouble first, then absence, then what is under way. Reasons follow after a colon."""
    if device.state != "active":
        return Span(device.state, Tone.BAD if device.state == "quarantined" else Tone.FAINT)
    trouble = model_trouble(model)
    if trouble is not None:
        return Span(trouble, Tone.BAD)
    if not device.online:
        return Span(f"offline {wording.age(device.last_seen_ms, now_ms)}".removesuffix(f" {wording.NONE}"), Tone.BUSY)
    if model is None or model.state is None:
        return Span("no model" if model is None else "serving", Tone.FAINT if model is None else Tone.GOOD)
    if model.state in BUSY_STATES:
        return Span(f"{wording.state_text(model.state)} {model.attempted_version or ''}".rstrip(), Tone.BUSY)
    if device.throttled:
        return Span(f"{wording.state_text(model.state)}, throttled", Tone.BUSY)
    return Span(wording.state_text(model.state), Tone.GOOD if model.state == "committed" else Tone.PLAIN)


def about_lines(entry: Entry, width: int, now_ms: int) -> list[Line]:
    """The row under the cursor in full, when there is more to say than the row can hold."""
    state = state_span(entry.device, entry.model, now_ms)
    if state.tone is not Tone.BAD:
        return []
    return paragraph((Span(f"{entry.device.id} ", state.tone),), state.text, width, state.tone, hanging=2)


def model_trouble(model: ModelView | None) -> str | None:
    """What is wrong with a model on a device, in one line; None: nothing."""
    if model is None:
        return None
    if model.regressed:
        return f"regressed: {model.regressed}"
    if model.state in FAILED_STATES:
        what = f"{wording.state_text(model.state)} {model.attempted_version or ''}".rstrip()
        return f"{what}: {model.reason}" if model.reason else what
    return None if model.healthy else f"unhealthy: {model.reason or 'it does not serve'}"
