"""deploy/emulate-arm64 used wrongly; what it does when used rightly is in tests/system/test_arm64.py."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "emulate-arm64"


def call(*words: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*prefix, str(SCRIPT), *words], capture_output=True, text=True, timeout=60)


def test_help_has_examples() -> None:
    done = call("--help")
    assert done.returncode == 0
    assert "mindie probe --json" in done.stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "usage:"),
        (["fly"], "unknown command fly"),
        (["--sideways", "run"], "--sideways"),
        (["--env", "moon", "run"], "--env moon is none of: sound"),
        (["--cpuinfo", "moon", "run"], "--cpuinfo moon"),
        (["--root"], "--root needs a value"),
    ],
)
def test_wrong_use_is_told_and_ends_with_2(words: list[str], named: str) -> None:
    done = call(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr


def test_without_root_rights_it_says_so() -> None:
    prefix = ("setpriv", "--reuid", "65534", "--clear-groups") if os.geteuid() == 0 else ()
    done = call("run", "--", "true", prefix=prefix)
    if done.returncode == 126 or "Permission denied" in done.stderr:
        pytest.skip("another user cannot read this checkout")
    assert done.returncode == 2
    assert "needs root rights" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root rights")
def test_clean_deletes_nothing_but_its_own_root(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    done = call("--root", str(tmp_path), "clean")
    assert done.returncode == 2
    assert (tmp_path / "precious").exists()
