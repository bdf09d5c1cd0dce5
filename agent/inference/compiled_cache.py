"""A folder of compiled models that a runtime would otherwise make anew at each start: keys, and a bound on its size."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

MAX_BYTES = 512 << 20
CPU_FLAG_LINES = ("flags", "Features", "model name", "CPU part")


def compiled_key(file: Path, facts: Mapping[str, object], cpu: str) -> str:
    """Changes with the file (place, size, time), whatever is in ``facts`` (runtime version, options), and the CPU.

    A laid-out bundle's files never change in place, so their content need not be read.
    """
    stat = file.stat()
    identity = {**facts, "file": str(file.resolve()), "size": stat.st_size, "changed": stat.st_mtime_ns, "cpu": cpu}
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:32]


def cpu_identity(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What compiled code may depend on: the features of the first CPU. Empty where it cannot be read."""
    try:
        first = cpuinfo.read_text(errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in first if line.split("\t")[0].split(":")[0].strip() in CPU_FLAG_LINES)


def prune(folder: Path, max_bytes: int = MAX_BYTES, keep: Path | None = None) -> None:
    """Delete the files used longest ago until the folder holds at most ``max_bytes``; never ``keep``. Never raises."""
    with contextlib.suppress(OSError):
        files = [(path, path.stat()) for path in folder.iterdir() if path.is_file()]
        total = sum(stat.st_size for _, stat in files)
        for path, stat in sorted(files, key=lambda item: item[1].st_mtime):
            if total <= max_bytes:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                total -= stat.st_size


def touch(path: Path) -> None:
    """Mark as used now. Never raises."""
    with contextlib.suppress(OSError):
        os.utime(path)
