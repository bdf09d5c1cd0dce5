"""A child that must not outlive its parent asks the kernel to be killed with it (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent_pid: int) -> None:
    """Be killed when the thread that started this process ends, so start children from threads that live as long.

    Ends this process at once if ``parent_pid`` is gone already. Where the kernel has no such call nothing happens: the
    sockets to the parent close all the same.
    """
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)
