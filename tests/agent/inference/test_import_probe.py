"""A probe that hangs must not outlive who asked: Ctrl-C and kill -9 leave no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HANGS = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(600)\n"
DEADLINE_S = 20.0


def test_a_probe_ends_with_the_process_that_asked(tmp_path: Path) -> None:
    info = tmp_path / "site" / "slow_npu-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-npu\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mindedge.backends]\nslow = slow_npu:SlowBackend\n")
    (tmp_path / "site" / "slow_npu.py").write_text(HANGS)
    root = str(Path(__file__).parents[3])
    asker = subprocess.Popen(
        [sys.executable, "-c", "from agent.inference.registry import runtime_facts; runtime_facts(names=['slow'])"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{tmp_path / 'site'}"},
    )  # fmt: skip
    try:
        probe = int(_awaited(tmp_path / "pid"))
    finally:
        asker.send_signal(signal.SIGKILL)
        asker.wait()
    deadline = time.monotonic() + DEADLINE_S
    while _is_alive(probe) and time.monotonic() < deadline:
        time.sleep(0.02)
    alive = _is_alive(probe)
    if alive:
        os.kill(probe, signal.SIGKILL)
    assert not alive


def _awaited(path: Path) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.02)
    raise AssertionError("the probe did not begin")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
