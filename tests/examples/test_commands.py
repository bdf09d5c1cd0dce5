"""The demo leaves no command behind it when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

DEADLINE_S = 20.0
SLOW_TO_END = (
    "import os, pathlib, signal, sys, time\n"
    "def end(*_):\n    time.sleep(0.5)\n    pathlib.Path('ended').touch()\n    sys.exit(1)\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "pathlib.Path('begun').touch()\ntime.sleep(60)\n"
)
DEMO = (
    "from examples.demo.commands import run\nfrom examples.demo.narration import Narrator\n"
    f"run(['python', '-c', {SLOW_TO_END!r}], Narrator(), quiet=True)\n"
)


def test_an_interrupted_demo_waits_until_the_command_it_ran_has_ended(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    demo = subprocess.Popen(
        [sys.executable, "-c", DEMO], cwd=tmp_path, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + DEADLINE_S
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    demo.send_signal(signal.SIGINT)
    demo.wait(DEADLINE_S)
    assert (tmp_path / "ended").exists()
