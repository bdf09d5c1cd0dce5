from __future__ import annotations

import os
from pathlib import Path

from agent.inference.compiled_cache import compiled_key, cpu_identity, prune


def test_the_key_changes_with_the_file_the_facts_and_the_cpu(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(b"one")
    keys = {compiled_key(file, {"level": 99}, "cpu a"), compiled_key(file, {"level": 1}, "cpu a"),
            compiled_key(file, {"level": 99}, "cpu b")}  # fmt: skip
    file.write_bytes(b"other")
    keys.add(compiled_key(file, {"level": 99}, "cpu a"))
    assert len(keys) == 4
    assert compiled_key(file, {"level": 99}, "cpu a") in keys


def test_the_cpus_identity_is_its_features_not_its_frequency(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: X\ncpu MHz\t\t: 800\nflags\t\t: avx2\n\nprocessor\t: 1\n")
    first = cpu_identity(info)
    assert "avx2" in first
    info.write_text(info.read_text().replace("800", "3000"))
    assert cpu_identity(info) == first
    assert cpu_identity(tmp_path / "nothing") == ""


def test_the_files_used_longest_ago_go_first_and_the_newest_stays(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old", "older")):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    prune(tmp_path, max_bytes=200)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "old"}
    prune(tmp_path, max_bytes=50, keep=tmp_path / "old")
    assert {path.name for path in tmp_path.iterdir()} == {"old"}
    prune(tmp_path / "nothing")
