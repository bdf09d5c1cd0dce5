"""Seam: durable changes to the data folder. Drivers: RealDisk here; tests cut the power or fill it up.

Each method is one durable change: when it returns, the change survives a power cut; when the power goes in its middle,
the old content is still there whole, or the new one is. Reading needs no seam.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Protocol

PRIVATE = 0o600
PUBLIC = 0o644
PRIVATE_FOLDER = 0o700


class Disk(Protocol):
    """All methods raise OSError (disk full, read-only) and leave nothing half done that looks whole."""

    def replace(self, path: Path, data: bytes, mode: int = PUBLIC) -> None:
        """``path`` holds exactly ``data``; folders above it are made, private."""

    def append(self, path: Path, data: bytes) -> None:
        """``data`` at the end of ``path``. A power cut may leave a part of it: readers check."""

    def publish(self, built: Path, path: Path) -> None:
        """Rename a finished file or folder to ``path`` (a folder must not exist there). ``built`` is synced before."""

    def link(self, existing: Path, path: Path) -> None:
        """A second name for a file that never changes; a copy where the file system has no hard links."""

    def remove(self, path: Path) -> None:
        """A file or folder is gone; nothing happens when it was not there."""

    def free_bytes(self, folder: Path) -> int:
        """What may still be written below ``folder``, which need not exist yet."""


class RealDisk:
    """tmp + fsync + rename + fsync of the folder."""

    def replace(self, path: Path, data: bytes, mode: int = PUBLIC) -> None:
        make_private(path.parent)
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)

    def append(self, path: Path, data: bytes) -> None:
        make_private(path.parent)
        with path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def publish(self, built: Path, path: Path) -> None:
        sync_tree(built)
        make_private(path.parent)
        built.rename(path)
        sync_folder(path.parent)

    def link(self, existing: Path, path: Path) -> None:
        try:
            os.link(existing, path)
        except OSError:
            # FAT, some network file systems and sticky-bit rules have no hard links.
            shutil.copyfile(existing, path)

    def remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.exists() or path.is_symlink():
            path.unlink()
        else:
            return
        sync_folder(path.parent)

    def free_bytes(self, folder: Path) -> int:
        while not folder.exists():
            folder = folder.parent
        space = os.statvfs(folder)
        return space.f_bavail * space.f_frsize


def make_private(folder: Path) -> None:
    """The folder is there; what was missing of it and above it is the owner's alone, whatever the umask allows others.

    Raises OSError.
    """
    if folder.is_dir() or folder == folder.parent:
        return
    make_private(folder.parent)
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """The folder's entries survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """The file, or the folder with all that is in it, survives a power cut."""
    if not path.is_dir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return
    for child in path.iterdir():
        sync_tree(child)
    sync_folder(path)
