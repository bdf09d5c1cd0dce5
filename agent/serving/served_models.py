"""The models that clients can ask for, by name, and the statistics of every version served so far."""

from __future__ import annotations

from collections.abc import Callable
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
    """One active version per name; a version that is replaced leaves by ``put`` or ``remove``."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._entries: dict[str, Entry] = {}
        self._statistics: dict[tuple[str, str, str], ModelStatistics] = {}

    def find(self, name: str, version: str | None) -> Entry:
        """Raises RequestRefused (404) naming what is served."""
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(sorted(self._entries)) or "none"
            raise RequestRefused(404, f"unknown model {name[:80]!r}; models here: {known}")
        if version is not None and version != entry.live.served.version:
            raise RequestRefused(
                404, f"model {name!r} has no version {version[:40]!r}; version here: {entry.live.served.version}"
            )
        return entry

    def lives(self) -> list[LiveModel]:
        """Those that clients can ask for."""
        return [entry.live for entry in self._entries.values()]

    def put(self, entry: Entry) -> LiveModel | None:
        """Serve it under its name from now on; returns the one it replaces."""
        name = entry.live.served.name
        old = self._entries.get(name)
        self._entries[name] = entry
        return None if old is None else old.live

    def remove(self, name: str) -> LiveModel | None:
        """Serve that name no more; returns what served."""
        entry = self._entries.pop(name, None)
        return None if entry is None else entry.live

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
