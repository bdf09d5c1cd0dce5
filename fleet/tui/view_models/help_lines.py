"""The help page. Pure."""

from __future__ import annotations

from fleet.tui.glyphs import Glyphs
from fleet.tui.view_models.spans import BLANK, Line, Span, Tone
from fleet.tui.view_models.text_width import paragraph

_KEY = 12


def help_lines(width: int, glyphs: Glyphs) -> list[Line]:
    """Keys, then what marks and colours mean."""
    lines: list[Line] = []
    for title, entries in _pages(glyphs):
        lines.append((Span(title, Tone.FAINT),))
        for mark, text, tone in entries:
            lines += paragraph((Span(f" {mark}".ljust(_KEY), tone),), text, width)
        lines.append(BLANK)
    return lines[:-1]


Entry = tuple[str, str, Tone]


def _pages(glyphs: Glyphs) -> list[tuple[str, list[Entry]]]:
    return [("EVERYWHERE", _everywhere()), ("TABLES", _tables()), ("ROLLOUTS", _rollouts()), ("MARKS", _marks(glyphs))]


def _keys(*pairs: tuple[str, str]) -> list[Entry]:
    return [(key, text, Tone.STRONG) for key, text in pairs]


def _everywhere() -> list[Entry]:
    return _keys(
        ("1 2 3 4", "fleet, devices, rollouts, bundles (or click the name on top)"),
        ("Enter", "open what is under the cursor"),
        ("Escape", "back; close"),
        ("Tab", "to the next part of the page"),
        ("F5", "ask the server now (it is asked every second anyway)"),
        ("Ctrl+P", "commands: type part of a command, device or rollout"),
        ("?", "this page"),
        ("q, Ctrl+C", "quit; nothing on the server changes"),
    )


def _tables() -> list[Entry]:
    return _keys(
        ("/", "search devices: all words must be there (id, board, label, bundle, runtime, state, offline ...)"),
        ("s", "sort devices by the next column"),
        ("S", "turn the order round (or click a column's title)"),
    )


def _rollouts() -> list[Entry]:
    return _keys(
        ("s p r a b", "start, pause, resume, abort, roll back: the keys line shows what is possible; each asks first"),
        ("y, Enter", "do it"),
        ("n, Escape", "do nothing"),
    )


def _marks(glyphs: Glyphs) -> list[Entry]:
    bar = f"{glyphs.bar_good}{glyphs.bar_bad}{glyphs.bar_busy}{glyphs.bar_idle}"
    return [
        (glyphs.online, "online", Tone.GOOD),
        (glyphs.offline, "offline: what is shown is what the device said last", Tone.BUSY),
        (glyphs.good, "done", Tone.GOOD),
        (glyphs.busy, "under way", Tone.BUSY),
        (glyphs.held, "paused: waits for you", Tone.BUSY),
        (glyphs.bad, "failed, refused or stopped", Tone.BAD),
        ("!name", "the bundle is not signed", Tone.BAD),
        (bar, "of a wave: committed, failed, under way, still to come", Tone.PLAIN),
        ("0.25r ms", "latency of the race; fewer than 20 requests were served in the last minutes", Tone.FAINT),
        ("vs ORT", "times as fast as ONNX Runtime with its default options, on that device", Tone.PLAIN),
        ("TH, CPUS", "threads of the backend in use; CPUs that the device may use", Tone.PLAIN),
    ]
