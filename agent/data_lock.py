"""DATA/lock: one mindie process at a time changes a data folder. The kernel frees it however the holder ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from agent.errors import ConfigurationError, DataFolderLocked


@contextlib.contextmanager
def data_lock(data_dir: Path) -> Iterator[None]:
    """Hold the lock. Raises DataFolderLocked naming the holder, ConfigurationError when the folder cannot be used."""
    path = data_dir / "lock"
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError("--data", f"{data_dir} cannot be used: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise DataFolderLocked(
                f"{data_dir} is in use by another mindie process (pid {holder or 'unknown'}): stop it, or choose "
                "another folder with --data"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
