"""A process of equal priority that burns one CPU while a block runs: the neighbour that a device so often has."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

CODE = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(1_000_000): pass"
"""It ends with the one that started it, whatever becomes of that."""


@contextlib.contextmanager
def busy_process(count: int = 1) -> Iterator[None]:
    """``count`` of them."""
    started = [subprocess.Popen([sys.executable, "-c", CODE]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()
