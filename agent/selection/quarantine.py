"""Candidates that must not be tried again on this device: crashed, hung, took all memory, or answered wrongly.

One JSON file, written through a rename and synced. An entry counts for one runtime version, device fingerprint and
variant digest, in the mode (provider and precision) in which it happened; so a new runtime or a new file is tried
afresh. A wrong answer counts only while at least that much accuracy is asked for.

A trial that is being opened is noted first, with the boot it happens in. A note found under a later boot means that the
power went (or the machine froze) during that trial: at the second time the candidate is quarantined. A note of the same
boot means only that our own process ended, which is no evidence.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent.disk import make_private

POWER_RETURNS = 2
MAX_ENTRIES = 500


class QuarantineKey(msgspec.Struct, frozen=True, kw_only=True):
    """``runtime``: name and version. ``mode``: agent.selection.candidates.Entrant.mode."""

    runtime: str
    device: str
    variant: str
    mode: str


class QuarantineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """kind: "crash", "hang", "memory", "power" or "wrong" (then ``max_drop`` is what was asked for)."""

    key: QuarantineKey
    kind: str
    reason: str
    max_drop: float | None = None


class _Note(msgspec.Struct, kw_only=True):
    key: QuarantineKey
    boot: str
    power_returns: int = 0
    open: bool = True


class _File(msgspec.Struct, kw_only=True):
    entries: list[QuarantineEntry] = []
    notes: list[_Note] = []


class Quarantine:
    """One process uses the file at a time (the holder of DATA/lock). ``load`` first."""

    def __init__(self, file: Path, boot_id: Callable[[], str]) -> None:
        self._file = file
        self._boot_id = boot_id
        self._content = _File()

    def load(self) -> None:
        """Read the file and draw the conclusions from notes of earlier boots. A broken file is taken as empty."""
        try:
            self._content = msgspec.json.decode(self._file.read_bytes(), type=_File)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            self._content = _File()
        boot = self._boot_id()
        for note in self._content.notes:
            if note.open and note.boot != boot:
                note.power_returns += 1
                if note.power_returns >= POWER_RETURNS:
                    self._add(note.key, "power", f"the power went {note.power_returns} times while it was tried")
            note.open = False
        self._content.notes = [n for n in self._content.notes if 0 < n.power_returns < POWER_RETURNS]

    def entry(self, key: QuarantineKey, max_drop: float) -> QuarantineEntry | None:
        """Why this must not be tried, or None. ``max_drop``: the accuracy asked for now."""
        for entry in self._content.entries:
            if entry.key == key and (entry.kind != "wrong" or max_drop <= (entry.max_drop or 0.0)):
                return entry
        return None

    def begin(self, key: QuarantineKey) -> None:
        """Note durably that a trial of ``key`` is about to be opened."""
        note = self._note(key)
        if note is None:
            self._content.notes.append(_Note(key=key, boot=self._boot_id()))
        else:
            note.boot, note.open = self._boot_id(), True
        self._save()

    def end(self, key: QuarantineKey) -> None:
        """The trial is over, however it ended: the power did not go. Not synced: a lost end costs one count of two."""
        self._content.notes = [note for note in self._content.notes if note.key != key]
        self._save(sync=False)

    def add(self, key: QuarantineKey, kind: str, reason: str, max_drop: float | None = None) -> None:
        """Keep ``key`` out from now on."""
        self._add(key, kind, reason, max_drop)
        self._save()

    def _add(self, key: QuarantineKey, kind: str, reason: str, max_drop: float | None = None) -> None:
        others = [entry for entry in self._content.entries if entry.key != key]
        entry = QuarantineEntry(key=key, kind=kind, reason=reason, max_drop=max_drop)
        self._content.entries = [*others, entry][-MAX_ENTRIES:]

    def _note(self, key: QuarantineKey) -> _Note | None:
        return next((note for note in self._content.notes if note.key == key), None)

    def _save(self, *, sync: bool = True) -> None:
        """A disk that takes nothing costs the memory of this file, not the choice."""
        with contextlib.suppress(OSError):
            make_private(self._file.parent)
            temporary = self._file.with_name(f".{self._file.name}.tmp")
            with temporary.open("wb") as file:
                file.write(msgspec.json.encode(self._content))
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(self._file)


def this_boot() -> str:
    """The kernel's id of the current boot; empty where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
