"""Keeping a runtime's threads on the CPUs that its process was given.

ONNX Runtime's default pins each of its threads to a core of the whole machine, which leaves the affinity of the process
(measured: on one CPU of two its second thread ran on the other). A thread may narrow the mask, not widen it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def confine_threads() -> int:
    """Put every thread of this process that strays from the calling thread's CPUs back on them; how many there were."""
    allowed = os.sched_getaffinity(0)
    strays = 0
    for entry in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended, or the system forbids it
            thread = int(entry.name)
            if not os.sched_getaffinity(thread) <= allowed:
                os.sched_setaffinity(thread, allowed)
                strays += 1
    return strays
