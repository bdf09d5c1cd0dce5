from __future__ import annotations

import argparse
import io
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from agent.cli.arguments import parser
from agent.cli.probe import show
from agent.hardware.probe import probe
from agent.hardware.sysfs import this_machine
from agent.measured_figures import keep_figures
from edge_contracts.capabilities import Capabilities, RuntimeFact, decode
from tests.agent.cli.mindie import document, mindie
from tests.agent.hardware.recording import BOARDS, record

MEASURED_HERE = "--measure measures this machine and cannot be used with --root"
RUNTIME = RuntimeFact(name="onnxruntime", version="1.23.2", targets=["cpu"], status="usable")


def parsed(*argv: str | Path) -> argparse.Namespace:
    return parser().parse_args(["probe", *map(str, argv)])


def run(*argv: str | Path, runtimes: Sequence[RuntimeFact] | None = None) -> tuple[int, str, str]:
    """In this process. ``runtimes``: what is found on this machine; None: a recorded machine is looked at."""

    def complete(facts: Capabilities) -> Capabilities:
        return msgspec.structs.replace(facts, runtimes=list(runtimes or ()))

    out, err = io.StringIO(), io.StringIO()
    return show(parsed(*argv), None if runtimes is None else complete, out, err), out.getvalue(), err.getvalue()


def test_json_is_exactly_one_document_in_the_contracts_shape() -> None:
    status, out, err = run("--root", BOARDS / "rock-5b-rk3588", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert set(found) == {"board", "os", "cpu", "memory", "accelerators", "thermal", "power_mode", "runtimes"}
    assert found["cpu"]["clusters"][0]["logical_cpus"] == "0-3"
    assert found["power_mode"] is None
    assert decode(out.encode()).board.profile == "rock-5b"


def test_text_is_for_a_person() -> None:
    status, out, _ = run("--root", BOARDS / "geekom-gt1-mega-ultra9-185h")
    assert status == 0
    assert "Board       GEEKOM GT1 Mega\n" in out
    assert "6 x Redwood Cove (P), CPUs 0-11, 2 threads per core, 5100 MHz" in out
    assert "NPU Intel Meteor Lake NPU: usable" in out
    assert "None" not in out


def test_a_recorded_machine_has_none_of_this_machines_runtimes() -> None:
    assert document(mindie("probe", "--root", BOARDS / "rpi-4b-64", "--json"))["runtimes"] == []


@pytest.mark.parametrize("root", [[], ["--root", "/"]])
def test_this_machine_has_its_runtimes_and_what_was_measured_once(tmp_path: Path, root: list[str]) -> None:
    facts = probe(this_machine())
    known = msgspec.structs.replace(
        facts, cpu=msgspec.structs.replace(facts.cpu, gflops_fp32=12.5),
        memory=msgspec.structs.replace(facts.memory, bandwidth_gb_s=7.5),
    )  # fmt: skip
    keep_figures(tmp_path, known)
    found = document(mindie("probe", *root, "--json", "--data", tmp_path))
    assert {"onnxruntime", "openvino", "tflite"} <= {runtime["name"] for runtime in found["runtimes"]}
    assert (found["cpu"]["gflops_fp32"], found["memory"]["bandwidth_gb_s"]) == (12.5, 7.5)


def test_without_a_data_folder_answers_are_kept_in_the_users_cache_and_no_data_folder_is_made(tmp_path: Path) -> None:
    first = document(mindie("probe", "--json", "--data", tmp_path / "data", environ={"XDG_CACHE_HOME": str(tmp_path)}))
    kept = tmp_path / "mindedge" / "runtime_facts.json"
    assert kept.is_file()
    assert not (tmp_path / "data").exists()
    kept.write_bytes(kept.read_bytes().replace(b'"usable"', b'"kept"'))
    second = document(mindie("probe", "--json", "--data", tmp_path / "data", environ={"XDG_CACHE_HOME": str(tmp_path)}))
    assert [runtime["name"] for runtime in second["runtimes"]] == [runtime["name"] for runtime in first["runtimes"]]
    assert "kept" in {runtime["status"] for runtime in second["runtimes"]}


def test_runtimes_are_words_for_a_person() -> None:
    assert "Runtimes    onnxruntime 1.23.2: usable on cpu" in run(runtimes=[RUNTIME])[1]


def test_what_is_odd_goes_to_stderr(tmp_path: Path) -> None:
    record(tmp_path, {"sys/fs/cgroup/cpu.max": "x y z"})
    status, out, err = run("--root", tmp_path, "--json")
    assert status == 0
    assert json.loads(out)["cpu"]["budget_cpus"] is None
    assert err == "warning: /sys/fs/cgroup/cpu.max: expected QUOTA PERIOD, got 3 fields; taken as no limit\n"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--root", "/nowhere/at/all"], "mindie probe: --root /nowhere/at/all: no such directory\n"),
        (["--root", __file__], f"mindie probe: --root {__file__}: not a directory\n"),
        (["--root", str(BOARDS), "--measure"], f"mindie probe: {MEASURED_HERE}\n"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    args = parsed(*argv)
    assert args.run(args) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", line)
