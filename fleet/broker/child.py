"""Becomes another program that ends when its parent does: ``python child.py PARENT_PID PROGRAM [ARGUMENT...]``.

Run by path and not as a module, in an interpreter of its own (``-I -S``), so it imports nothing of the product and
needs no hook between fork and exec in a threaded parent. The kernel sends SIGTERM when the *thread* that started this
process ends: start it from a thread that lives as long as the child shall. A program that changes its user loses the
binding (prctl(2)), so the program must keep the user it is started as.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    """Does not return when all goes well; 1 when the parent is gone already or the program cannot be run."""
    parent, program = int(argv[0]), argv[1:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
            sys.stderr.write(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}\n")
            return 1
        # The parent may have died before the line above: then nobody would ever send the signal.
        if os.getppid() != parent:
            return 1
    try:
        os.execv(program[0], program)
    except OSError as error:
        sys.stderr.write(f"{program[0]}: {error.strerror}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
