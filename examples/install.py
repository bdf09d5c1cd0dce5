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
        print(f"[install] new virtual environment {folder}", flush=True)
        venv.create(folder, with_pip=True)
    print(f"[install] pip install -e '.[{extras}]'", flush=True)
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
        print("[install] pip failed; the lines above say why", file=sys.stderr)
    else:
        print(f"[install] done in {time.monotonic() - started:.0f} s", flush=True)
    return status


def _heartbeat(done: threading.Event, lines: list[str], started: float) -> None:
    while not done.wait(SILENCE_S):
        latest = next((line for line in reversed(lines) if line.strip() and "WARNING" not in line), "starting pip")
        print(f"[install] {time.monotonic() - started:4.0f} s  {latest.strip()[:100]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
