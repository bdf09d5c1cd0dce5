from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from packager.child_process import Finished, run_to_end


def run(folder: Path, program: str, timeout_s: float = 30.0, beats: list[str] | None = None) -> Finished:
    return run_to_end(
        [sys.executable, "-c", program],
        environ={},
        working_folder=folder,
        log=folder / "log",
        timeout_s=timeout_s,
        heartbeat=(beats if beats is not None else []).append,
    )


def test_the_last_lines_come_without_colours_and_redraws(tmp_path: Path) -> None:
    finished = run(tmp_path, r"print('\x1b[33mfirst\x1b[0m\n\n10%\r50%\r100%\nValueError: last')")
    assert finished == Finished(0, ("first", "100%", "ValueError: last"))


def test_an_exit_status_is_kept_and_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    finished = run(tmp_path, r"import sys; sys.stdout.buffer.write(b'\xff\xfe bad'); sys.exit(3)")
    assert finished.returncode == 3
    assert finished.last_lines[-1].endswith("bad")


def test_a_program_that_does_not_end_is_stopped_with_everything_it_started(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    beats: list[str] = []
    finished = run(tmp_path, program, timeout_s=2.5, beats=beats)
    assert finished.returncode is None
    assert beats
    assert _ends(int(finished.last_lines[0]))


def test_a_program_that_ends_leaves_no_orphan_behind(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True)"
    )
    finished = run(tmp_path, program)
    assert finished.returncode == 0
    assert _ends(int(finished.last_lines[0]))


def _ends(pid: int, within_s: float = 5.0) -> bool:
    """A kill takes effect a moment after it was sent: look until the deadline."""
    deadline = time.monotonic() + within_s
    while _runs(pid):
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


def _runs(pid: int) -> bool:
    """Neither gone nor a zombie that waits for its new parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
