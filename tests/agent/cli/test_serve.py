"""`mindie serve` as a user runs it: a real bundle, the whole update machine, a real runtime."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from agent.cli.serve import fixed_shapes
from agent.errors import ConfigurationError
from tests.agent.serving.running import close_to, expected, infer_json, process_exists, sample_rows, wait_for
from tests.simulators.bundle_factory import onnx_bundle

MINDIE = [sys.executable, "-m", "agent"]


def test_a_bundle_is_served_until_interrupted_and_nothing_is_left(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx_bundle(tmp_path / "affine-1.0.0.mindie")
    onnx_bundle(tmp_path / "other-1.0.0.mindie", name="other")
    command = [
        *MINDIE,
        "serve",
        "affine-1.0.0.mindie",
        "other-1.0.0.mindie",
        "--port",
        "0",
        "--data",
        "data",
        "--json",
        "--allow-unsigned",
    ]
    command += ["--race-budget", "1", "--num-threads", "1", "--fixed-shape", "x=2,8", "--enable-batch-inference"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        about = json.loads(process.stdout.readline())
        assert [model["name"] for model in about["models"]] == ["affine", "other"]
        assert about["models"][0]["options"]["threads"] == 1
        url = f"{about['url']}/v2/models/affine"
        right = requests.post(f"{url}/infer", data=infer_json(sample_rows(1, 2)), timeout=60)
        assert close_to(right.json()["outputs"][0]["data"], expected(sample_rows(1, 2)))
        wrong = requests.post(f"{url}/infer", data=infer_json(sample_rows(1, 3)), timeout=60)
        assert wrong.status_code == 400
        assert "[2,8]" in wrong.json()["error"]
        assert requests.get(url, timeout=60).json()["inputs"][0]["shape"] == [2, 8]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGINT)
        rest, log = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert rest == ""
    assert "Traceback" not in log
    wait_for(lambda: not any(process_exists(int(pid)) for pid in children))


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [(["nope.mindie"], 1, "nope.mindie"), (["nope.mindie", "--tls-cert", "c.pem"], 2, "--tls-key"),
     (["nope.mindie", "--port", "99999"], 2, "--port"), (["nope.mindie", "--num-threads", "0"], 2, "--num-threads"),
     (["a.mindie", "--port", "0"], 1, "unsigned")],
)  # fmt: skip
def test_wrong_use_is_one_line_and_its_own_exit_code(
    tmp_path: Path, arguments: list[str], code: int, named: str
) -> None:
    pytest.importorskip("onnx")
    onnx_bundle(tmp_path / "a.mindie")
    command = [*MINDIE, "serve", *arguments, "--data", "data"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("text", ["x", "x=", "=1,2", "x=1,,2", "x=-1", "x=a"])
def test_a_fixed_shape_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        fixed_shapes([text])
    assert "--fixed-shape" in str(caught.value)


def test_fixed_shapes_are_read_by_input() -> None:
    assert fixed_shapes(["x=1,8", "a=b=2"]) == {"x": [1, 8], "a=b": [2]}
