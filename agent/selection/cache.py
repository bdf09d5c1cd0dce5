"""Choices made before, by fingerprint: one JSON file each, the oldest dropped beyond a number."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from agent.disk import make_private
from edge_contracts.evidence import ChoiceEvidence

MAX_CHOICES = 100


class CachedChoice(msgspec.Struct, frozen=True, kw_only=True):
    """``complete``: the race was decided; False: it ended with its time, ``race_budget_s``."""

    evidence: ChoiceEvidence
    complete: bool
    race_budget_s: float


class ChoiceCache:
    """A folder. Broken or foreign files in it are as good as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, fingerprint: str, race_budget_s: float) -> ChoiceEvidence | None:
        """The choice, marked ``from_cache``; None also when more time is given now than an undecided race had."""
        try:
            kept = msgspec.json.decode((self._folder / f"{fingerprint}.json").read_bytes(), type=CachedChoice)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if kept.evidence.fingerprint != fingerprint or (not kept.complete and race_budget_s > kept.race_budget_s * 1.5):
            return None
        return msgspec.structs.replace(kept.evidence, from_cache=True)

    def keep(self, choice: CachedChoice) -> None:
        """Store it under its evidence's fingerprint. A full disk only costs the cache."""
        try:
            make_private(self._folder)
            file = self._folder / f"{choice.evidence.fingerprint}.json"
            temporary = file.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_bytes(msgspec.json.encode(choice))
            temporary.replace(file)
            self._prune()
        except OSError:
            return

    def forget(self, fingerprint: str) -> None:
        """Drop a choice that proved wrong."""
        (self._folder / f"{fingerprint}.json").unlink(missing_ok=True)

    def _prune(self) -> None:
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for file in files[:-MAX_CHOICES]:
            file.unlink(missing_ok=True)
