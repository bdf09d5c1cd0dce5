from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from packager.errors import PackagerError, ToolchainMissing, ToolchainUnsupported, UnknownToolchain
from packager.toolchain import (
    InstallStep,
    environment_folder,
    installed,
    load_toolchain,
    require_installed,
    running_python,
    toolchain_names,
    toolchains_root,
)


def test_every_toolchain_file_is_readable_and_works_with_the_pythons_it_names() -> None:
    assert "tflite" in toolchain_names()
    for name in toolchain_names():
        toolchain = load_toolchain(name)
        toolchain.require_python(toolchain.min_python)
        toolchain.require_python(toolchain.max_python)


def test_every_requirement_is_pinned_so_that_the_same_model_gives_the_same_bytes() -> None:
    for name in toolchain_names():
        requirements = [line for step in load_toolchain(name).steps for line in step.requirements]
        assert all("==" in line.partition(";")[0] for line in requirements)


def test_a_python_outside_the_range_is_refused_with_the_range() -> None:
    with pytest.raises(ToolchainUnsupported, match=r"3\.10 to 3\.13, this is 3\.14"):
        load_toolchain("tflite").require_python((3, 14))


def test_an_unknown_toolchain_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownToolchain, match="there is tflite"):
        load_toolchain("tfltie")


def test_another_requirement_or_another_python_is_another_folder() -> None:
    toolchain = load_toolchain("tflite")
    changed = msgspec.structs.replace(toolchain, steps=(InstallStep(("onnx2tf==9.9.9",)),))
    names = {toolchain.folder_name((3, 11)), toolchain.folder_name((3, 12)), changed.folder_name((3, 11))}
    assert len(names) == 3
    assert toolchain.folder_name((3, 11)) == load_toolchain("tflite").folder_name((3, 11))


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/u"}, "/home/u/.cache/mindedge/toolchains"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "/c"}, "/c/mindedge/toolchains"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "relative"}, "/home/u/.cache/mindedge/toolchains"),
        ({"MINDEDGE_TOOLCHAINS": "/t", "XDG_CACHE_HOME": "/c"}, "/t"),
    ],
)
def test_the_cache_folder_follows_the_environment(environ: dict[str, str], folder: str) -> None:
    assert toolchains_root(environ) == Path(folder)


def test_without_a_home_the_way_out_is_named() -> None:
    with pytest.raises(PackagerError, match="MINDEDGE_TOOLCHAINS"):
        toolchains_root({})


def test_a_missing_toolchain_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing, match="run: mindpack toolchain install tflite"):
        require_installed(load_toolchain("tflite"), tmp_path)


def test_an_environment_whose_python_was_removed_counts_as_absent(tmp_path: Path) -> None:
    toolchain = load_toolchain("tflite")
    scripts = environment_folder(toolchain, tmp_path) / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").symlink_to(tmp_path / f"python{running_python()[1]}-that-is-gone")
    assert installed(toolchain, tmp_path) is None
