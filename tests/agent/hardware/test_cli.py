from __future__ import annotations

import argparse
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.hardware.cli import register, run_probe
from edge_contracts.capabilities import RuntimeFact, decode
from tests.agent.hardware.recording import BOARDS, record


def run(*argv: str, runtimes: Sequence[RuntimeFact] = ()) -> tuple[int, str, str]:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    args = parser.parse_args(["probe", *argv])
    out, err = io.StringIO(), io.StringIO()
    return run_probe(args, lambda args: list(runtimes), out, err), out.getvalue(), err.getvalue()


MEASURED_HERE = "--measure measures this machine and cannot be used with --root"
RUNTIME = RuntimeFact(name="onnxruntime", version="1.23.2", targets=["cpu"], status="usable")


def test_json_is_exactly_one_document_in_the_contracts_shape() -> None:
    status, out, err = run("--root", str(BOARDS / "rock-5b-rk3588"), "--json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert set(document) == {"board", "os", "cpu", "memory", "accelerators", "thermal", "power_mode", "runtimes"}
    assert document["cpu"]["clusters"][0]["logical_cpus"] == "0-3"
    assert document["power_mode"] is None
    assert decode(out.encode()).board.profile == "rock-5b"


def test_text_is_for_a_person() -> None:
    status, out, _ = run("--root", str(BOARDS / "geekom-gt1-mega-ultra9-185h"))
    assert status == 0
    assert "Board       GEEKOM GT1 Mega\n" in out
    assert "6 x Redwood Cove (P), CPUs 0-11, 2 threads per core, 5100 MHz" in out
    assert "NPU Intel Meteor Lake NPU: usable" in out
    assert "None" not in out


def test_a_recorded_machine_has_none_of_this_machines_runtimes() -> None:
    _, out, _ = run("--root", str(BOARDS / "rpi-4b-64"), "--json", runtimes=[RUNTIME])
    assert json.loads(out)["runtimes"] == []


def test_this_machine_has_its_runtimes() -> None:
    _, out, _ = run("--json", runtimes=[RUNTIME])
    assert json.loads(out)["runtimes"][0]["name"] == "onnxruntime"
    _, text, _ = run(runtimes=[RUNTIME])
    assert "Runtimes    onnxruntime 1.23.2: usable on cpu" in text


def test_the_root_of_this_machine_is_this_machine() -> None:
    _, out, _ = run("--root", "/", "--json", runtimes=[RUNTIME])
    assert len(json.loads(out)["runtimes"]) == 1


def test_what_is_odd_goes_to_stderr(tmp_path: Path) -> None:
    record(tmp_path, {"sys/fs/cgroup/cpu.max": "x y z"})
    status, out, err = run("--root", str(tmp_path), "--json")
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
def test_wrong_use_is_one_line_and_exit_2(argv: list[str], line: str) -> None:
    assert run(*argv) == (2, "", line)


def test_the_parser_carries_the_function_to_call(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    args = parser.parse_args(["probe", "--root", str(BOARDS / "rpi-4b-64"), "--json"])
    assert args.run(args) == 0
    assert json.loads(capsys.readouterr().out)["board"]["profile"] == "raspberry-pi-4b"


def test_options_of_every_command_are_taken_over() -> None:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true")
    common.add_argument("--data")
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers(), common)
    args = parser.parse_args(["probe", "--json", "--data", "D"])
    assert (args.json, args.data, args.root) == (True, "D", None)


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["probe", "--help"])
    assert "mindie probe --json" in capsys.readouterr().out
