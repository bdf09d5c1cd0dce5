"""Whether this terminal can show screens, and how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MINIMUM_COLUMNS = 40
MINIMUM_ROWS = 10
_NO_SCREENS = ("dumb", "unknown", "")
_STARTED_WITH = Path("/proc/self/environ")


def unusable(environ: Mapping[str, str], *, is_tty: bool) -> str | None:
    """Why no screen can be shown and the way out, in one line; None: it can."""
    if not is_tty:
        return "mindfleet tui needs a terminal, also for errors: use `mindfleet device list --json` in scripts"
    term = environ.get("TERM", "")
    if term in _NO_SCREENS:
        return f"mindfleet tui needs a terminal that can move its cursor (TERM is {term or 'not set'}): set TERM"
    return None


def is_too_small(columns: int, rows: int) -> bool:
    """Below this the screens give way to one line."""
    return columns < MINIMUM_COLUMNS or rows < MINIMUM_ROWS


def wants_no_colours(environ: Mapping[str, str]) -> bool:
    """NO_COLOR counts when it is not empty (no-color.org)."""
    return environ.get("NO_COLOR", "") != ""


def starting_environment(environ: Mapping[str, str], path: Path = _STARTED_WITH) -> Mapping[str, str]:
    """The environment as the shell gave it, before Python changed LC_CTYPE; ``environ`` where the system hides it."""
    try:
        pairs = path.read_bytes().split(b"\0")
    except OSError:
        return environ
    found = {}
    for pair in pairs:
        name, equals, value = pair.decode("utf-8", "replace").partition("=")
        if equals:
            found[name] = value
    return found or environ
