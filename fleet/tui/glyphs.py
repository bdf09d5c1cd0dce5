"""Marks and bars, in one table for terminals with UTF-8 and one for all others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_COERCED = ("c.utf-8", "c.utf8", "utf-8")


@dataclass(frozen=True)
class Glyphs:
    """Every mark is one cell wide, except ``at_least``, ``at_most`` and ``arrow``."""

    online: str
    offline: str
    good: str
    busy: str
    bad: str
    idle: str
    held: str
    bar_good: str
    bar_bad: str
    bar_busy: str
    bar_idle: str
    ellipsis: str
    up: str
    down: str
    dot: str
    times: str
    at_least: str
    at_most: str
    arrow: str
    replacement: str
    is_ascii: bool


UNICODE = Glyphs(
    online="●", offline="○", good="✓", busy="▸", bad="✗", idle="·", held="‖",
    bar_good="█", bar_bad="✗", bar_busy="▒", bar_idle="░",
    ellipsis="…", up="▲", down="▼", dot="·", times="\N{MULTIPLICATION SIGN}", at_least="≥", at_most="≤", arrow="→",
    replacement="\N{REPLACEMENT CHARACTER}", is_ascii=False,
)  # fmt: skip
ASCII = Glyphs(
    online="*", offline="o", good="+", busy=">", bad="x", idle="-", held="|",
    bar_good="#", bar_bad="x", bar_busy="=", bar_idle=".",
    ellipsis="~", up="^", down="v", dot="-", times="x", at_least=">=", at_most="<=", arrow="->",
    replacement="?", is_ascii=True,
)  # fmt: skip


def glyphs_for(environ: Mapping[str, str]) -> Glyphs:
    """The table for the locale that ``environ`` asks for, in POSIX order: LC_ALL, LC_CTYPE, LANG; empty is not set.

    Pass the environment the process was started with: Python itself sets LC_CTYPE under LANG=C (PEP 538).
    """
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        wanted = environ.get(name, "").lower()
        if wanted:
            is_utf8 = wanted in _COERCED or wanted.partition(".")[2].partition("@")[0] in ("utf-8", "utf8")
            return UNICODE if is_utf8 else ASCII
    return ASCII
