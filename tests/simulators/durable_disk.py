"""Disks that fail: one whose power goes at the n-th durable change, one that is full."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from agent.disk import PUBLIC, RealDisk


class PowerCut(BaseException):
    """Not an Exception: nothing in the product can catch it, as nothing catches a power cut."""


class CutDisk(RealDisk):
    """The power goes at durable change number ``cut_at`` (1 is the first), before, in the middle of or after it.

    ``torn``: what the change leaves of itself: "before" nothing, "middle" a half-written temporary file or a half-made
    append, "after" all of it. ``changes`` counts.
    """

    def __init__(self, cut_at: int | None, torn: str = "before") -> None:
        self.cut_at = cut_at
        self.torn = torn
        self.changes = 0

    def replace(self, path: Path, data: bytes, mode: int = PUBLIC) -> None:
        def half() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(f".{path.name}.tmp").write_bytes(data[: len(data) // 2])

        self._change(lambda: super(CutDisk, self).replace(path, data, mode), half)

    def append(self, path: Path, data: bytes) -> None:
        def half() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data[: len(data) // 2])

        self._change(lambda: super(CutDisk, self).append(path, data), half)

    def publish(self, built: Path, path: Path) -> None:
        self._change(lambda: super(CutDisk, self).publish(built, path), lambda: None)

    def link(self, existing: Path, path: Path) -> None:
        self._change(lambda: super(CutDisk, self).link(existing, path), lambda: path.write_bytes(b"half"))

    def remove(self, path: Path) -> None:
        def half() -> None:
            if path.is_dir():
                for child in list(path.iterdir())[:1]:
                    shutil.rmtree(child) if child.is_dir() else child.unlink()

        self._change(lambda: super(CutDisk, self).remove(path), half)

    def _change(self, act: Callable[[], None], half: Callable[[], object]) -> None:
        self.changes += 1
        if self.changes != self.cut_at:
            act()
            return
        if self.torn == "middle":
            half()
        elif self.torn == "after":
            act()
        raise PowerCut(self.changes)


class FullDisk(RealDisk):
    """Refuses every write from change number ``full_at`` on until ``is_full`` is taken back."""

    def __init__(self, full_at: int) -> None:
        self.full_at = full_at
        self.changes = 0
        self.is_full = True

    def replace(self, path: Path, data: bytes, mode: int = PUBLIC) -> None:
        self._check(path)
        super().replace(path, data, mode)

    def append(self, path: Path, data: bytes) -> None:
        self._check(path)
        super().append(path, data)

    def publish(self, built: Path, path: Path) -> None:
        self._check(path)
        super().publish(built, path)

    def link(self, existing: Path, path: Path) -> None:
        self._check(path)
        super().link(existing, path)

    def _check(self, path: Path) -> None:
        self.changes += 1
        if self.is_full and self.changes >= self.full_at:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
