"""What the data folder's owner has, others have not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.disk import RealDisk, make_private


@pytest.fixture(params=[0o000, 0o022, 0o077])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_folders_below_the_data_folder_are_the_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.replace(tmp_path / "a" / "b" / "file", b"x")
    disk.append(tmp_path / "c" / "d" / "file", b"x")
    disk.publish(tmp_path / "a" / "b" / "file", tmp_path / "e" / "f" / "file")
    make_private(tmp_path / "g" / "h")
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(folders) == 8
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
