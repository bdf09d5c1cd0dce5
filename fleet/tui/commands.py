"""The command palette: our own commands, and devices and rollouts by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider

MAX_NAMES = 20


class PaletteEntry(NamedTuple):
    """``run`` does it."""

    title: str
    help: str
    run: Callable[[], Any]


class FleetCommands(Provider):
    """The application offers ``palette_entries()`` and ``palette_names(part)``."""

    async def discover(self) -> Hits:
        for entry in self._entries():
            yield DiscoveryHit(entry.title, entry.run, help=entry.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for entry in self._entries():
            score = matcher.match(entry.title)
            if score > 0:
                yield Hit(score, matcher.highlight(entry.title), entry.run, help=entry.help)
        for entry in self._names(query):
            yield Hit(0.5, entry.title, entry.run, help=entry.help)

    def _entries(self) -> Iterable[PaletteEntry]:
        app: Any = self.app
        entries: Iterable[PaletteEntry] = app.palette_entries()
        return entries

    def _names(self, part: str) -> Iterable[PaletteEntry]:
        app: Any = self.app
        names: Iterable[PaletteEntry] = app.palette_names(part)
        return names


def containing(names: Iterable[str], part: str) -> list[str]:
    """The first MAX_NAMES of ``names`` that contain ``part``, whatever the case."""
    found = []
    for name in names:
        if part.lower() in name.lower():
            found.append(name)
            if len(found) == MAX_NAMES:
                break
    return found
