"""The journal: the device's state in one checked file, and the history of deployments as checked lines.

DATA/state/journal        newest state          DATA/state/journal.last   the one before
DATA/state/history        one line per ended deployment: 16 hex of its sha256, a blank, JSON
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from agent.checked_file import CheckedFile
from agent.disk import Disk, RealDisk
from agent.errors import UpdateError
from agent.update.records import FORMAT, DeviceState, HistoryEntry

MAX_HISTORY_BYTES = 1024 * 1024


class _Format(msgspec.Struct):
    format: int = FORMAT


class Journal:
    """One writer, which holds DATA/lock. Anybody may read."""

    def __init__(self, data_dir: Path, disk: Disk) -> None:
        self._file = CheckedFile(data_dir / "state" / "journal", disk)
        self._history = data_dir / "state" / "history"
        self._disk = disk

    def load(self) -> DeviceState:
        """The last state that is whole; an empty one at the first start or when nothing whole is left.

        Raises UpdateError when a newer agent wrote it.
        """
        content = self._file.read()
        if content is None:
            return DeviceState()
        try:
            version = msgspec.json.decode(content, type=_Format).format
            if version > FORMAT:
                raise UpdateError("internal", f"{self._file.path}: format {version} was written by a newer mindie; "
                                  f"this one reads up to {FORMAT}: update mindie")  # fmt: skip
            return msgspec.json.decode(content, type=DeviceState)
        except msgspec.MsgspecError:
            return DeviceState()

    @property
    def is_damaged(self) -> bool:
        """The newest state is torn: what ``load`` gives is older, or empty."""
        return self._file.is_damaged

    def save(self, state: DeviceState) -> None:
        """Make ``state`` the truth. Raises OSError; then the old state is."""
        self._file.write(msgspec.json.encode(state))

    def append_history(self, entry: HistoryEntry) -> None:
        """Remember an ended deployment; may come twice for one deployment (power cut), readers fold that."""
        if self._history.exists() and self._history.stat().st_size > MAX_HISTORY_BYTES:
            kept = self.history()
            self._disk.replace(self._history, b"".join(_line(old) for old in kept[len(kept) // 2 :]))
        # A torn last line has no newline: start on a fresh one.
        self._disk.append(self._history, (b"" if self._ends_whole() else b"\n") + _line(entry))

    def history(self) -> list[HistoryEntry]:
        """Oldest first; torn lines are left out."""
        try:
            lines = self._history.read_bytes().split(b"\n")
        except OSError:
            return []
        entries = [entry for line in lines if (entry := _entry(line)) is not None]
        return list({(entry.deployment, entry.state): entry for entry in entries}.values())

    def _ends_whole(self) -> bool:
        try:
            with self._history.open("rb") as file:
                if file.seek(0, 2) == 0:
                    return True
                file.seek(-1, 2)
                return file.read(1) == b"\n"
        except OSError:
            return True


def read_state(data_dir: Path) -> DeviceState:
    """For commands that only look. Raises UpdateError when a newer agent wrote it."""
    return Journal(data_dir, RealDisk()).load()


def read_history(data_dir: Path) -> list[HistoryEntry]:
    """For commands that only look."""
    return Journal(data_dir, RealDisk()).history()


def _line(entry: HistoryEntry) -> bytes:
    body = msgspec.json.encode(entry)
    return hashlib.sha256(body).hexdigest()[:16].encode() + b" " + body + b"\n"


def _entry(line: bytes) -> HistoryEntry | None:
    digest, _, body = line.partition(b" ")
    if hashlib.sha256(body).hexdigest()[:16].encode() != digest:
        return None
    try:
        return msgspec.json.decode(body, type=HistoryEntry)
    except msgspec.MsgspecError:
        return None
