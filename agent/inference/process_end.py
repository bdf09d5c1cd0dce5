"""How a child process ended, in words."""

from __future__ import annotations

import signal

_MEANING = {
    signal.SIGILL: "illegal instruction: built for another CPU",
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGABRT: "aborted itself",
    signal.SIGFPE: "arithmetic error",
    signal.SIGKILL: "killed from outside, most likely for lack of memory",
    signal.SIGXCPU: "CPU time limit",
}


def signal_text(returncode: int) -> str:
    """``returncode`` as subprocess gives it: "died of SIGILL (illegal ...)" or "ended with exit code 3"."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        number = signal.Signals(-returncode)
    except ValueError:
        return f"died of signal {-returncode}"
    meaning = _MEANING.get(number)
    return f"died of {number.name} ({meaning})" if meaning else f"died of {number.name}"
