"""Temporary folders that carry their owner's process id, so that what a killed one left is swept by the next.

``.../PREFIX-PID-RANDOM``. The owner also holds a lock on the folder, which the kernel drops with it: a folder of
another container that shares our temporary place, where the same id means another process, is left alone while in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

BUILD_PREFIX = "mindpack-build"
PULL_PREFIX = ".mindpack-pull"

IsAlive = Callable[[int], bool]


def is_alive(pid: int) -> bool:
    """Whether a process of that id runs, whoever owns it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def work_folder(parent: Path, prefix: str, alive: IsAlive = is_alive) -> Iterator[Path]:
    """An empty folder of our own below ``parent``, gone afterwards; first those of dead owners go. Raises OSError."""
    sweep_folders(parent, prefix, alive)
    named = tempfile.TemporaryDirectory(prefix=f"{prefix}-{os.getpid()}-", dir=parent)
    with named as name, _opened(Path(name)) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield Path(name)


def sweep_folders(parent: Path, prefix: str, alive: IsAlive = is_alive) -> list[Path]:
    """Remove our own user's folders of that prefix whose owner is dead; what cannot be removed stays. Returns them."""
    named = re.compile(rf"{re.escape(prefix)}-(\d+)-[^/]+")
    swept = []
    for folder in _entries(parent, named, alive):
        if stat.S_ISDIR(folder.lstat().st_mode) and _is_free(folder):
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
    return swept


def sweep_partial_files(output: Path, alive: IsAlive = is_alive) -> list[Path]:
    """Remove ``.OUTPUT.PID.tmp`` beside ``output`` whose writer is dead: what a killed write left. Returns them."""
    named = re.compile(rf"\.{re.escape(output.name)}\.(\d+)\.tmp")
    swept = []
    for file in _entries(output.absolute().parent, named, alive):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(file.lstat().st_mode):
                file.unlink()
                swept.append(file)
    return swept


def _entries(parent: Path, named: re.Pattern[str], alive: IsAlive) -> Iterator[Path]:
    """Those of our own user with such a name, whose first group is the id of a dead process."""
    with contextlib.suppress(OSError):
        for path in sorted(parent.iterdir()):
            matched = named.fullmatch(path.name)
            if matched is None or alive(int(matched[1])):
                continue
            with contextlib.suppress(OSError):
                if path.lstat().st_uid == os.getuid():
                    yield path


def _is_free(folder: Path) -> bool:
    try:
        with _opened(folder) as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
