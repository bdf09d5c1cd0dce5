"""Runs a vendor's tool on the live machine: found on PATH, in the C locale, never longer than its time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

EXTRA_PATH = "/usr/sbin:/usr/local/sbin:/sbin:/opt/vc/bin:/usr/local/bin:/usr/local/Ascend/driver/tools"
"""Where the tools live that a service's short PATH leaves out (nvpmodel, vcgencmd of old images, npu-smi)."""


def run_tool(argv: Sequence[str], timeout_s: float) -> str | None:
    """Standard output, or None when the tool is absent, ended with an error or was too slow."""
    path = os.pathsep.join(part for part in (os.environ.get("PATH", ""), EXTRA_PATH) if part)
    program = shutil.which(argv[0], path=path)
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
