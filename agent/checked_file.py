"""A small state file with a checksum and a last good copy: a torn or empty file is noticed, never believed.

Form: ``<sha256 of the rest, 64 hex>\\n<content>``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from agent.disk import PUBLIC, Disk

_HEX = 64


class CheckedFile:
    """One writer. ``path`` and beside it ``path.last``, the content before the newest."""

    def __init__(self, path: Path, disk: Disk, mode: int = PUBLIC) -> None:
        self._path = path
        self._last = path.with_name(path.name + ".last")
        self._disk = disk
        self._mode = mode

    @property
    def path(self) -> Path:
        """Of the newest content."""
        return self._path

    def read(self) -> bytes | None:
        """The newest content that is whole; None when there is none, or none that is."""
        for path in (self._path, self._last):
            content = read_checked(path)
            if content is not None:
                return content
        return None

    @property
    def is_damaged(self) -> bool:
        """A file lies there and is not whole (what ``read`` gives, if anything, is older)."""
        return self._path.exists() and read_checked(self._path) is None

    def write(self, content: bytes) -> None:
        """Replace the content; the one before stays as the last good copy. Raises OSError; then nothing has changed."""
        whole = read_checked(self._path) is not None
        if whole:
            self._keep_last()
        self._disk.replace(self._path, seal(content), self._mode)

    def _keep_last(self) -> None:
        """A second name for the present file: renaming another over the first leaves this one untouched."""
        staged = self._last.with_name(f".{self._last.name}.tmp")
        staged.unlink(missing_ok=True)
        self._disk.link(self._path, staged)
        staged.replace(self._last)


def seal(content: bytes) -> bytes:
    """What a checked file with this content holds."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def read_checked(path: Path) -> bytes | None:
    """The content, or None when the file is missing, unreadable or not whole."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, _, content = data.partition(b"\n")
    if len(digest) != _HEX or hashlib.sha256(content).hexdigest().encode() != digest:
        return None
    return content
