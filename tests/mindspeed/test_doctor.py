from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from mindspeed.environment import DeviceReport, advise

HAS_TORCH = importlib.util.find_spec("torch") is not None
CPU = DeviceReport(kind="cpu", name="CPU (AVX2)", memory_gb=8.0, bf16=False)
GPU = DeviceReport(kind="cuda", name="GPU", memory_gb=24.0, bf16=True)


def doctor(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mindspeed", "doctor", *words], capture_output=True, text=True)


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed here")
def test_without_torch_the_doctor_prints_the_pip_line_and_exits_2() -> None:
    answer = doctor()
    assert answer.returncode == 2
    assert answer.stderr == "mindspeed: training needs torch: pip install 'mindedge[trainer]'\n"


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_with_torch_the_doctor_prints_one_json_document() -> None:
    assert json.loads(doctor("--json").stdout)["devices"]


def test_more_threads_than_cpus_is_said_with_the_setting_that_helps() -> None:
    assert "OMP_NUM_THREADS=2" in advise([CPU], threads=8, allowed=2)[0]


def test_a_gpu_with_bf16_and_fitting_threads_needs_no_advice() -> None:
    assert advise([GPU, CPU], threads=4, allowed=4) == []


def test_a_wrong_option_with_json_is_one_document_on_stdout_and_exits_2() -> None:
    answer = doctor("--levitate", "--json")
    assert answer.returncode == 2
    assert json.loads(answer.stdout) == {"error": "unrecognized arguments: --levitate"}
    assert answer.stderr.splitlines()[-1] == "mindspeed: unrecognized arguments: --levitate"


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed here")
def test_without_torch_the_pip_line_is_told_in_json_too() -> None:
    answer = doctor("--json")
    assert answer.returncode == 2
    assert json.loads(answer.stdout) == {"error": "training needs torch: pip install 'mindedge[trainer]'"}


def test_without_a_command_the_help_is_printed() -> None:
    answer = subprocess.run([sys.executable, "-m", "mindspeed"], capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stdout.startswith("usage: mindspeed")


def test_an_unknown_command_exits_2() -> None:
    assert subprocess.run([sys.executable, "-m", "mindspeed", "levitate"], capture_output=True).returncode == 2
