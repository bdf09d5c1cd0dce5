"""Makes a virtual environment and installs this checkout into it, with a line at least every five seconds.

python3 examples/install.py .venv agent,fleet,packager      # = python3 -m venv .venv; .venv/bin/pip install -e '.[...]'
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SILENCE_S = 4.0


def main() -> int:
    """Install; exit status of pip."""
    if sys.version_info < (3, 10):  # noqa: UP036 - this file runs before anything has checked the interpreter
        sys.exit(
            f"MindEdge needs Python 3.10 or newer, this is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11"
        )
    folder, extras = Path(sys.argv[1]), sys.argv[2]
    python = folder / "bin" / "python"
    if not python.exists():
        _say(f"new virtual environment {folder}")
        venv.create(folder, with_pip=True)
    _say(f"pip install -e '.[{extras}]'")
    return _run([str(python), "-m", "pip", "install", "--disable-pip-version-check", "-e", f"{ROOT}[{extras}]"])


def _run(command: list[str]) -> int:
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        last: list[str] = []
        done = threading.Event()
        threading.Thread(target=_heartbeat, args=(done, last, started), daemon=True).start()
        for line in pip.stdout or ():
            last.append(line.rstrip())
        status = pip.wait()
        done.set()
    if status:
        print("\n".join(last[-15:]), file=sys.stderr)
        _say("pip failed; the lines above say why")
    else:
        _say(f"done in {time.monotonic() - started:.0f} s")
    return status


def _say(text: str) -> None:
    """On stderr: what runs after the install keeps stdout to itself."""
    print(f"[install] {text}", file=sys.stderr, flush=True)


def _heartbeat(done: threading.Event, lines: list[str], started: float) -> None:
    while not done.wait(SILENCE_S):
        latest = next((line for line in reversed(lines) if line.strip() and "WARNING" not in line), "starting pip")
        _say(f"{time.monotonic() - started:4.0f} s  {latest.strip()[:100]}")


if __name__ == "__main__":
    sys.exit(main())
