"""Make a toolchain's environment: build it aside, try it, rename it into place.

Two at once: the second waits for the first's lock (the kernel drops it with its holder, so none is ever stale) and
then finds the work done. A cut install leaves only a folder under `building/`, which the next one clears.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from packager.child_process import Finished, run_to_end
from packager.errors import ToolchainInstallFailed
from packager.quiet_tools import silenced
from packager.toolchain import Environment, Toolchain, environment_folder, installed, running_python

STEP_TIMEOUT_S = 1800.0
HEARTBEATS_A_LINE = 4
"""A heartbeat comes once a second; every fourth becomes a line."""
MEBIBYTE = 1024 * 1024
BUILD_SPACE_FACTOR = 2
"""pip unpacks beside what it installs: ask for twice the finished size."""
SHEBANG_MAX_BYTES = 1024 * 1024
PIP_INSTALL = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off")

DOWNLOADS = ("Looking in", "Collecting", "Downloading", "Using cached", "Obtaining")
"""How pip's lines begin while it fetches; it says "Installing" only at the end."""

Say = Callable[[str], None]


class Step(NamedTuple):
    """``title`` of the work and, while it runs, ``doing``: "13 packages", "installing"."""

    title: str
    doing: str
    command: list[str | Path]

    @property
    def words(self) -> str:
        return f"{self.doing} {self.title}".strip()

    def progress(self, last_lines: Sequence[str], seconds: int) -> str:
        """One line; nothing of a tool's own output gets into it, warnings least of all."""
        if self.doing != "installing":
            return f"{self.words}, {seconds} s"
        said = [line for line in last_lines if line.startswith((*DOWNLOADS, "Installing"))]
        doing = "downloading" if said and said[-1].startswith(DOWNLOADS) else self.doing
        return f"{self.title}, {doing}, {seconds} s"


def install(
    toolchain: Toolchain, root: Path, environ: Mapping[str, str], say: Say, sleep: Callable[[float], None]
) -> Environment:
    """The environment, made if it is not there yet.

    `say` receives progress, at least every 5 s; `sleep` waits between looks at another install's lock. Raises
    ToolchainUnsupported, ToolchainInstallFailed.
    """
    toolchain.require_python(running_python())
    building = root / "building" / toolchain.folder_name(running_python())
    try:
        building.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(building.with_suffix(".lock"), toolchain, say, sleep):
            found = installed(toolchain, root)
            if found is None:
                _build(toolchain, building, environment_folder(toolchain, root), environ, say)
    except OSError as error:
        reason = f"{error.filename or root}: {error.strerror or error}; MINDEDGE_TOOLCHAINS chooses another folder"
        raise ToolchainInstallFailed(toolchain.name, "making its folder", reason) from error
    found = installed(toolchain, root)
    if found is None:
        raise ToolchainInstallFailed(toolchain.name, "finding it again", "its Python does not run; install it again")
    return found


@contextmanager
def _only_one(lock: Path, toolchain: Toolchain, say: Say, sleep: Callable[[float], None]) -> Iterator[None]:
    with lock.open("w") as held:
        waited = 0
        while not _try_lock(held.fileno()):
            if waited % HEARTBEATS_A_LINE == 0:
                say(f"toolchain {toolchain.name}: waiting for another install to end ({waited} s)")
            sleep(1.0)
            waited += 1
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _build(toolchain: Toolchain, building: Path, target: Path, environ: Mapping[str, str], say: Say) -> None:
    for leftover in (building, target):
        if leftover.exists():
            shutil.rmtree(leftover)
    _require_space(toolchain, building.parent)
    building.mkdir()
    try:
        for step in _steps(toolchain, building):
            _run_step(toolchain, step, building, environ, say)
        _point_scripts_to(target, building)
        building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    say(f"toolchain {toolchain.name}: ready")


def _require_space(toolchain: Toolchain, folder: Path) -> None:
    free_mb = shutil.disk_usage(folder).free // MEBIBYTE
    needed_mb = toolchain.installed_mb * BUILD_SPACE_FACTOR
    if free_mb < needed_mb:
        reason = f"{folder} has {free_mb} MB free, needs {needed_mb}; MINDEDGE_TOOLCHAINS chooses another folder"
        raise ToolchainInstallFailed(toolchain.name, "checking the disk", reason)


def _steps(toolchain: Toolchain, building: Path) -> Iterator[Step]:
    python = building / "bin" / "python"
    yield Step("the environment", "making", [sys.executable, "-I", "-m", "venv", building])
    for step in toolchain.steps:
        count = len(step.requirements)
        what = step.requirements[0] if count == 1 else f"{count} packages"
        yield Step(what, "installing", [python, "-I", *PIP_INSTALL, *step.options, *step.requirements])
    yield Step("it", "trying", [python, "-I", "-c", toolchain.smoke])


def _run_step(toolchain: Toolchain, step: Step, building: Path, environ: Mapping[str, str], say: Say) -> None:
    say(f"toolchain {toolchain.name}: {step.words}")
    beats = 0
    seen: list[str] = []

    def heartbeat(last_line: str) -> None:
        nonlocal beats
        beats += 1
        seen.append(last_line)
        if beats % HEARTBEATS_A_LINE == 0:
            say(f"toolchain {toolchain.name}: {step.progress(seen, beats)}")

    finished = run_to_end(
        step.command,
        environ=without_python_settings(environ),
        working_folder=building,
        log=building / "install.log",
        timeout_s=STEP_TIMEOUT_S,
        heartbeat=heartbeat,
    )
    if finished.returncode != 0:
        raise ToolchainInstallFailed(toolchain.name, step.words, _reason(finished), finished.last_lines)


def without_python_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment less what would lead the child's Python to our own packages."""
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    return {name: value for name, value in silenced(environ).items() if name not in ours}


def _reason(finished: Finished) -> str:
    """What went wrong, in one line: pip's own ERROR line where there is one, else the last line."""
    if finished.returncode is None:
        return f"no end after {STEP_TIMEOUT_S:g} s"
    if any("ensurepip is not available" in line for line in finished.last_lines):
        return "this Python has no venv module; on Debian and Ubuntu: apt install python3-venv"
    errors = [line.removeprefix("ERROR: ") for line in finished.last_lines if line.startswith("ERROR: ")]
    said = errors or list(finished.last_lines[-1:]) or [f"exit status {finished.returncode}"]
    return said[0]


def _point_scripts_to(target: Path, building: Path) -> None:
    """Scripts in bin/ name their Python by its full path, which the rename would make wrong."""
    old, new = os.fsencode(building), os.fsencode(target)
    for script in (building / "bin").iterdir():
        if script.is_symlink() or not script.is_file() or script.stat().st_size > SHEBANG_MAX_BYTES:
            continue
        content = script.read_bytes()
        if old in content:
            script.write_bytes(content.replace(old, new))
