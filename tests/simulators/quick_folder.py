"""Where tests that sync thousands of times keep their files: in memory where there is a memory file system."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mindedge-test-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)
