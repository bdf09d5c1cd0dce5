"""The clock of the services: Unix milliseconds, an argument everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable

NowMs = Callable[[], int]


def unix_ms() -> int:
    """Now."""
    return time.time_ns() // 1_000_000
