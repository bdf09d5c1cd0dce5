from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from packager.work_folder import BUILD_PREFIX, is_alive, sweep_folders, sweep_partial_files, work_folder

DEAD = 4_000_000
"""Above any process id here: the kernel's largest is 4194304, and 0 to DEAD are taken to be alive in these tests."""


def alive(pid: int) -> bool:
    return pid != DEAD


def folder(parent: Path, pid: int, prefix: str = BUILD_PREFIX) -> Path:
    made = parent / f"{prefix}-{pid}-x1"
    (made / "source").mkdir(parents=True)
    (made / "source" / "model.onnx").write_bytes(b"x")
    return made


def test_the_folder_names_its_owner_and_is_gone_afterwards(tmp_path: Path) -> None:
    with work_folder(tmp_path, BUILD_PREFIX) as made:
        assert made.name.startswith(f"mindpack-build-{os.getpid()}-")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_build_left_is_swept_by_the_next(tmp_path: Path) -> None:
    left = folder(tmp_path, DEAD)
    with work_folder(tmp_path, BUILD_PREFIX, alive):
        assert not left.exists()


def test_a_living_builds_folder_and_every_other_name_stay(tmp_path: Path) -> None:
    kept = [
        folder(tmp_path, os.getpid()),
        folder(tmp_path, DEAD, "mindpack-other"),
        folder(tmp_path, DEAD, "x-mindpack-build"),
        tmp_path / "mindpack-build-notes",
    ]
    kept[-1].mkdir()
    file = tmp_path / f"mindpack-build-{DEAD}-file"
    file.write_bytes(b"")
    assert sweep_folders(tmp_path, BUILD_PREFIX, alive) == []
    assert all(path.exists() for path in [*kept, file])


def test_a_link_of_that_name_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    (target / "file").mkdir(parents=True)
    (tmp_path / f"mindpack-build-{DEAD}-x1").symlink_to(target)
    sweep_folders(tmp_path, BUILD_PREFIX, alive)
    assert (target / "file").is_dir()


def test_a_folder_in_use_under_a_process_id_of_another_container_stays(tmp_path: Path) -> None:
    used = folder(tmp_path, DEAD)
    held = os.open(used, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert sweep_folders(tmp_path, BUILD_PREFIX, alive) == []
    os.close(held)
    assert sweep_folders(tmp_path, BUILD_PREFIX, alive) == [used]


def test_a_half_written_bundle_of_a_killed_build_is_swept_and_only_that(tmp_path: Path) -> None:
    left = tmp_path / f".digits.mindie.{DEAD}.tmp"
    kept = [tmp_path / f".digits.mindie.{os.getpid()}.tmp", tmp_path / f".other.mindie.{DEAD}.tmp"]
    for path in (left, *kept):
        path.write_bytes(b"half")
    assert sweep_partial_files(tmp_path / "digits.mindie", alive) == [left]
    assert all(path.exists() for path in kept)


def test_a_parent_that_is_not_there_has_nothing_to_sweep(tmp_path: Path) -> None:
    assert sweep_folders(tmp_path / "none", BUILD_PREFIX) == []


def test_a_process_that_ended_is_not_alive_and_ours_is() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not is_alive(ended.pid)
    assert is_alive(os.getpid())


@pytest.mark.parametrize("name", ["TERM", "HUP", "KILL"])
def test_a_killed_build_leaves_nothing_beside_its_output_and_its_folder_goes(name: str, tmp_path: Path) -> None:
    import signal

    from tests.packager.models import gemm, save

    temporary, out = tmp_path / "tmp", tmp_path / "out"
    temporary.mkdir()
    out.mkdir()
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[[variants]]\nruntime="onnxruntime"\nprecision="fp32"\ntarget="cpu"\nconverter="stub"\n'
        '[[variants]]\nruntime="onnxruntime"\nprecision="int8"\ntarget="cpu"\nconverter="onnx_fp32"\n'
    )
    command = [
        sys.executable, "-m", "packager", "build", str(save(gemm(), tmp_path)), "-o", str(out / "m.mindie"),
        "--name", "m", "--version", "1.0.0", "--recipe", str(recipe),
    ]  # fmt: skip
    build = subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(temporary)}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    assert build.stderr is not None
    for line in build.stderr:
        if "converting" in line:
            break
    assert list(temporary.glob(f"mindpack-build-{build.pid}-*"))
    build.send_signal(getattr(signal, f"SIG{name}"))
    build.stderr.read()
    assert build.wait() == (-9 if name == "KILL" else 130)
    assert list(out.iterdir()) == []
    sweep_folders(temporary, BUILD_PREFIX)
    assert list(temporary.glob("mindpack-build-*")) == []
