"""The models that clients can ask for, by name, and the statistics of every version served so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.errors import RequestRefused
from agent.serving.control import ModelStatistics as DrainedStatistics
from agent.serving.live_model import LiveModel
from agent.serving.statistics import ModelStatistics
from edge_contracts.bundle import VariantSpec

_KEPT_VERSIONS = 32


@dataclass(frozen=True)
class Entry:
    """A model that serves and what its variant says of itself. ``is_batched``: requests may be run together."""

    live: LiveModel
    variant: VariantSpec
    is_batched: bool


class ServedModels:
    """By name and version; a request that names no version gets the one that was put last."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._entries: dict[str, dict[str, Entry]] = {}
        self._statistics: dict[tuple[str, str, str], ModelStatistics] = {}
        self._expected: set[str] = set()

    def expect(self, names: Iterable[str]) -> None:
        """These are about to be loaded: until they are put or removed, a client is told to try again."""
        self._expected.update(names)

    def find(self, name: str, version: str | None) -> Entry:
        """Raises RequestRefused: 404 naming what is served, 503 for what is being loaded."""
        entries = self._entries.get(name)
        if entries is None and name in self._expected:
            raise RequestRefused(503, f"model {name!r} is not ready: it is being loaded")
        if entries is None:
            known = ", ".join(sorted(self._entries)) or "none"
            raise RequestRefused(404, f"unknown model {name[:80]!r}; models here: {known}")
        if version is None:
            return entries[next(reversed(entries))]
        entry = entries.get(version)
        if entry is None:
            raise RequestRefused(404, f"model {name!r} has no version {version[:40]!r}; here: {', '.join(entries)}")
        return entry

    def versions(self, name: str) -> list[str]:
        """Those of a name, the one loaded last at the end."""
        return list(self._entries.get(name, ()))

    def lives(self) -> list[LiveModel]:
        """Those that clients can ask for."""
        return [entry.live for entries in self._entries.values() for entry in entries.values()]

    def put(self, entry: Entry) -> list[LiveModel]:
        """Serve it from now on; returns those it replaces."""
        served = entry.live.served
        self._expected.discard(served.name)
        entries = self._entries.get(served.name, {})
        kept = {version: one for version, one in entries.items() if served.beside and version != served.version}
        self._entries[served.name] = {**kept, served.version: entry}
        return [one.live for version, one in entries.items() if version not in kept]

    def remove(self, name: str, version: str | None = None) -> list[LiveModel]:
        """Serve that name (or only that version of it) no more; returns what served."""
        self._expected.discard(name)
        entries = self._entries.pop(name, {})
        kept = {key: one for key, one in entries.items() if version is not None and key != version}
        if kept:
            self._entries[name] = kept
        return [one.live for key, one in entries.items() if key not in kept]

    def statistics(self, name: str, version: str, digest: str) -> ModelStatistics:
        """Of that version: the same object when it is served again."""
        key = (name, version, digest)
        if key not in self._statistics:
            while len(self._statistics) >= _KEPT_VERSIONS:
                del self._statistics[next(iter(self._statistics))]
            self._statistics[key] = ModelStatistics(name, version, digest, self._now_ms)
        return self._statistics[key]

    def all_statistics(self) -> list[ModelStatistics]:
        """Of the versions served since the start, the last ones."""
        return list(self._statistics.values())

    def drain(self) -> list[DrainedStatistics]:
        """Latency since the last call, of versions that had requests."""
        drained = [(statistics.name, statistics.drain()) for statistics in self._statistics.values()]
        return [DrainedStatistics(name=name, latency=latency) for name, latency in drained if latency is not None]
