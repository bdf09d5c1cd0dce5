from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from packager.errors import ToolchainInstallFailed
from packager.toolchain import InstallStep, Toolchain, environment_folder, installed, running_python
from packager.toolchain_install import Step, install


def small(**changes: object) -> Toolchain:
    """A toolchain that needs no network."""
    fields: dict[str, object] = {
        "name": "small",
        "summary": "",
        "python": "any",
        "min_python": (3, 0),
        "max_python": (4, 0),
        "installed_mb": 1,
        "smoke": "import json",
        "steps": (),
    }
    return Toolchain(**{**fields, **changes})  # type: ignore[arg-type]


def never(_seconds: float) -> None:
    raise AssertionError("nothing to wait for")


def make(toolchain: Toolchain, root: Path, say: Callable[[str], None] = lambda _line: None) -> None:
    install(toolchain, root, os.environ, say, never)


def test_an_installed_environment_runs_and_its_scripts_name_it(tmp_path: Path) -> None:
    said: list[str] = []
    environment = install(small(), tmp_path, os.environ, said.append, never)
    assert environment == installed(small(), tmp_path)
    pip = subprocess.run([environment.scripts / "pip", "--version"], capture_output=True, text=True, check=True)
    assert str(environment.folder) in pip.stdout
    assert said[-1] == "toolchain small: ready"
    said.clear()
    assert install(small(), tmp_path, os.environ, said.append, never) == environment
    assert said == []


def test_a_requirement_that_does_not_exist_is_one_clear_line_and_leaves_nothing(tmp_path: Path) -> None:
    toolchain = small(steps=(InstallStep(("no-such-package==1.0",), ("--no-index",)),))
    with pytest.raises(ToolchainInstallFailed, match=r"no-such-package==1\.0") as raised:
        make(toolchain, tmp_path)
    assert "\n" not in str(raised.value)
    assert installed(toolchain, tmp_path) is None
    assert [entry.suffix for entry in tmp_path.rglob("small-*")] == [".lock"]


def test_an_environment_that_fails_its_trial_is_not_installed(tmp_path: Path) -> None:
    toolchain = small(smoke="import no_such_module")
    with pytest.raises(ToolchainInstallFailed, match="No module named 'no_such_module'"):
        make(toolchain, tmp_path)
    assert installed(toolchain, tmp_path) is None


def test_what_a_cut_install_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    leftover = tmp_path / "building" / small().folder_name(running_python()) / "bin"
    leftover.mkdir(parents=True)
    (leftover / "python").write_text("cut")
    assert installed(small(), tmp_path) is None
    make(small(), tmp_path)
    assert installed(small(), tmp_path) is not None
    assert not leftover.exists()


def test_a_second_install_waits_for_the_first_and_uses_its_work(tmp_path: Path) -> None:
    lock = tmp_path / "building" / f"{small().folder_name(running_python())}.lock"
    lock.parent.mkdir()
    first = lock.open("w")
    fcntl.flock(first, fcntl.LOCK_EX)
    said: list[str] = []

    def first_ends(_seconds: float) -> None:
        scripts = environment_folder(small(), tmp_path) / "bin"
        scripts.mkdir(parents=True)
        (scripts / "python").write_text("made by the first")
        first.close()

    environment = install(small(), tmp_path, os.environ, said.append, first_ends)
    assert environment.python.read_text() == "made by the first"
    assert said == ["toolchain small: waiting for another install to end (0 s)"]


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(ToolchainInstallFailed, match=r"file.*MINDEDGE_TOOLCHAINS"):
        make(small(), blocked)


def test_too_little_disk_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ToolchainInstallFailed, match="MB free, needs"):
        make(small(installed_mb=10**12), tmp_path)


def test_progress_says_what_is_installed_and_for_how_long_and_nothing_of_pips_own_words() -> None:
    step = Step("13 packages", "installing", [])
    assert step.words == "installing 13 packages"
    assert step.progress([""], 4) == "13 packages, installing, 4 s"
    assert step.progress(["Collecting numpy==2.2.6", "WARNING: Location '/x' is ignored"], 8) == (
        "13 packages, downloading, 8 s"
    )
    assert step.progress(["Downloading numpy.whl", "Installing collected packages: numpy"], 12) == (
        "13 packages, installing, 12 s"
    )
    assert Step("it", "trying", []).progress(["WARNING: x"], 4) == "trying it, 4 s"


def test_what_an_install_prints_while_it_runs_ends_in_no_colon_and_shows_no_warning(tmp_path: Path) -> None:
    said: list[str] = []
    smoke = "import sys, time\nprint('WARNING: loud', flush=True)\ntime.sleep(5)"
    make(small(smoke=smoke), tmp_path, said.append)
    assert "toolchain small: trying it, 4 s" in said
    assert not any("WARNING" in line or line.rstrip().endswith(":") for line in said)
