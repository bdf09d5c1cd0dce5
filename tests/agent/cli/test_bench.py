"""``mindie bench`` as a process, over bundles and bare files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.cli.mindie import refused
from tests.simulators.bundle_factory import mixed_bundle, onnx_variant, seeded_affine


@pytest.fixture(scope="module", autouse=True)
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One data folder for all, so that the runtimes are asked once."""
    data = tmp_path_factory.mktemp("data")
    ENVIRON.update({**os.environ, "MINDEDGE_STUB_BACKEND": "1", "MINDEDGE_DATA": str(data)})
    yield ENVIRON
    ENVIRON.clear()


ENVIRON: dict[str, str] = {}


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "agent", "bench", "--allow-unsigned", *(str(argument) for argument in arguments)]
    return subprocess.run(argv, capture_output=True, text=True, env=ENVIRON, timeout=110, check=False)


def bench_json(*arguments: object) -> dict[str, Any]:
    done = bench(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def onnx_file(tmp_path: Path) -> Path:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    file = tmp_path / "model.onnx"
    file.write_bytes(onnx_variant(seeded_affine()).files["model.onnx"])
    return file


def test_a_bundle_is_raced_and_the_page_is_written(tmp_path: Path) -> None:
    bundle = mixed_bundle(tmp_path / "b.mindie", {"fast": {"delay_us": 1000}, "slow": {"delay_us": 5000}})
    told = bench_json(
        bundle, "--budget-s", 1.5, "--cpus", min(os.sched_getaffinity(0)), "--report", tmp_path / "r.html"
    )
    assert told["choice"]["variant"] == "fast"
    assert told["budget_cpus"] == 1
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_an_unsigned_bundle_is_refused_and_a_bare_file_needs_nobody_to_vouch_for_it(tmp_path: Path) -> None:
    bundle = mixed_bundle(tmp_path / "b.mindie", {"v": {}})
    argv = [sys.executable, "-m", "agent", "bench", "--budget-s", "1"]
    done = subprocess.run([*argv, str(bundle)], capture_output=True, text=True, env=ENVIRON, timeout=110, check=False)
    refused(done, "unsigned", "--allow-unsigned")
    assert done.stdout == ""
    assert "UNSIGNED" in bench(bundle, "--budget-s", 1).stderr
    bare = [*argv, str(onnx_file(tmp_path))]
    assert subprocess.run(bare, capture_output=True, env=ENVIRON, timeout=110, check=False).returncode == 0


def test_a_bare_onnx_file_is_raced_on_every_runtime_that_reads_it_beside_the_baselines(tmp_path: Path) -> None:
    told = bench_json(onnx_file(tmp_path), "--budget-s", 2.5)
    assert told["choice"]["variant"]
    assert {"onnxruntime-default", "onnxruntime-tuned"} == set(told["baselines"])
    assert told["ratio_vs_onnxruntime_default"] > 0
    runtimes = {candidate["runtime"] for candidate in told["candidates"]}
    assert "onnxruntime" in runtimes
    assert told["accuracy"]["value"] == 1.0


def test_a_bare_tflite_file_is_raced(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.simulators.tflite_model import tflite_affine

    file = tmp_path / "model.tflite"
    file.write_bytes(tflite_affine(seeded_affine()))
    told = bench_json(file, "--budget-s", 1.5)
    statuses = {candidate["variant"]: candidate["status"] for candidate in told["candidates"]}
    assert set(statuses) == {"tflite-fp32-cpu", "openvino-fp32-cpu"}
    assert told["baselines"] == {}


def test_when_nothing_runs_the_document_tells_why_and_the_exit_status_is_1(tmp_path: Path) -> None:
    bundle = mixed_bundle(tmp_path / "b.mindie", {"crashes": {"crash_at": "load"}})
    done = bench(bundle, "--budget-s", 1, "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["choice"] is None
    assert "SIGILL" in told["candidates"][0]["reason"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("page.onnx", b"<!DOCTYPE html><html>", "is a web page"),
        ("pointer.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        ("empty.onnx", b"", "is empty"),
        ("noise.onnx", b"\x00\x01\x02" * 100, "noise.onnx"),
        ("noise.tflite", b"\x00" * 100, "not a TFLite file"),
        ("half.tflite", b"\x1c\x00\x00\x00TFL3" + b"\x00" * 20, "half.tflite"),
        ("text.mindie", b"hello", "text.mindie"),
        ("model.pt", b"hello", "model.pt"),
    ],
)
def test_what_is_no_model_is_named_in_one_line(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = bench(tmp_path / name)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert words in last
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_file_that_is_not_there_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.onnx", tmp_path / "nowhere.mindie", tmp_path):
        done = bench(path)
        assert done.returncode == 1
        assert str(path.name) in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "wrong",
    [("--budget-s", "0"), ("--budget-s", "soon"), ("--max-drop", "2"), ("--objective", "beauty"), ("--cpus", "999"),
     ("--cpus", "a"), ("--fixed-shape", "x=a"), ("--fixed-shape", "=1"),
     ("--report", "/nowhere/at/all.html")],
)  # fmt: skip
def test_wrong_use_exits_2(tmp_path: Path, wrong: tuple[str, str]) -> None:
    bundle = mixed_bundle(tmp_path / "b.mindie", {"v": {}})
    done = bench(bundle, *wrong)
    assert done.returncode == 2, done.stderr
    assert wrong[0] in done.stderr


def test_a_model_with_external_data_is_raced_from_where_it_lies(tmp_path: Path) -> None:
    file = onnx_file(tmp_path)
    import onnx

    moved = tmp_path / "moved"
    moved.mkdir()
    onnx.save_model(onnx.load(file), moved / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    assert (moved / "m.data").exists()
    assert bench_json(moved / "m.onnx", "--budget-s", 1)["choice"] is not None


def test_open_dimensions_may_be_fixed(tmp_path: Path) -> None:
    told = bench_json(onnx_file(tmp_path), "--budget-s", 1, "--fixed-shape", "x=4,8")
    assert told["choice"] is not None
    done = bench(onnx_file(tmp_path), "--budget-s", 1, "--fixed-shape", "x=4,9")
    assert done.returncode == 1
    assert "--fixed-shape" in done.stderr


def test_ctrl_c_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    bundle = mixed_bundle(tmp_path / "b.mindie", {"hangs": {"hang_at": "load"}})
    argv = [sys.executable, "-m", "agent", "bench", str(bundle), "--allow-unsigned"]
    with subprocess.Popen(argv, env={**ENVIRON, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(scratch.glob("mindie-bench-*/work/trial-1.result.json")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        trials = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert trials
    assert not any(Path(f"/proc/{trial}").exists() for trial in trials)
    assert list(scratch.glob("mindie-bench-*")) == []


def test_it_leaves_no_scratch_folder_behind(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    bundle = mixed_bundle(tmp_path / "b.mindie", {"v": {}})
    argv = [sys.executable, "-m", "agent", "bench", str(bundle), "--allow-unsigned", "--budget-s", "1"]
    subprocess.run(argv, env={**ENVIRON, "TMPDIR": str(scratch)}, capture_output=True, timeout=110, check=True)
    assert list(scratch.iterdir()) == []
    shutil.rmtree(scratch)
