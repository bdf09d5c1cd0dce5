from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from packager.__main__ import main
from packager.cli.arguments import parser
from tests.packager.models import gemm, save
from tests.simulators.bundle_factory import stub_bundle

INPUTS = Path(__file__).parents[1] / "inputs"


def test_build_prints_one_document_and_progress_goes_to_stderr(tmp_path: Path, capfd: Any) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[[variants]]\nruntime="onnxruntime"\nprecision="fp32"\ntarget="cpu"\nconverter="stub"\n')
    model, out = save(gemm(), tmp_path), tmp_path / "m.mindie"
    status = main(
        ["build", str(model), "-o", str(out), "--name", "m", "--version", "1.0.0", "--recipe", str(recipe), "--json"]
    )
    printed, progress = capfd.readouterr()
    assert status == 0
    document = msgspec.json.decode(printed)
    assert [variant["name"] for variant in document["variants"]] == ["onnxruntime-fp32-cpu"]
    assert document["signed"] is False
    assert "converting" in progress
    assert (tmp_path / "m.report.json").is_file()

    assert main(["inspect", str(out), "--json"]) == 0
    shown = msgspec.json.decode(capfd.readouterr().out)
    assert shown["digest"] == document["digest"]
    assert shown["goldens"] == 8
    assert shown["variants"][0]["accuracy"]["drop"] == 0


@pytest.mark.parametrize("name", ["C15_git_lfs_pointer.onnx", "C05_nan_inf_weights.onnx", "C01_ir_too_new.onnx"])
def test_a_bad_model_is_one_line_and_status_1(name: str, tmp_path: Path, capfd: Any) -> None:
    out = tmp_path / "x.mindie"
    assert main(["build", str(INPUTS / name), "-o", str(out), "--name", "x", "--version", "1.0.0"]) == 1
    lines = capfd.readouterr().err.strip().splitlines()
    assert len([line for line in lines if line.startswith("mindpack: ")]) == 1
    assert "Traceback" not in "".join(lines)
    assert not out.exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--name", "Digits"),
        ("--version", "1"),
        ("-o", "/nonexistent/x.mindie"),
        ("--max-drop", "2"),
        ("--include-runtimes", "tpu"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_line_that_names_it_and_status_2(
    option: str, value: str, tmp_path: Path, capfd: Any
) -> None:
    given = {"--name": "x", "--version": "1.0.0", "-o": str(tmp_path / "x.mindie"), option: value}
    assert main(["build", str(tmp_path / "model.onnx"), *(word for pair in given.items() for word in pair)]) == 2
    said = capfd.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"mindpack: {option}: ")


def test_verify_refuses_what_nobody_signed_unless_told(tmp_path: Path, capfd: Any) -> None:
    bundle = stub_bundle(tmp_path / "b.mindie")
    assert main(["verify", str(bundle)]) == 1
    assert "--allow-unsigned accepts it" in capfd.readouterr().err
    assert main(["verify", str(bundle), "--allow-unsigned"]) == 0


def test_verify_finds_one_changed_byte_in_the_weights(tmp_path: Path, capfd: Any) -> None:
    bundle = stub_bundle(tmp_path / "b.mindie")
    content = bytearray(bundle.read_bytes())
    place = content.rindex(b'"bias"')
    content[place + 9] ^= 1
    bundle.write_bytes(content)
    assert main(["verify", str(bundle), "--allow-unsigned"]) == 1
    said = capfd.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "has changed bytes" in said[0]


@pytest.mark.parametrize("archive", sorted(path.name for path in (INPUTS / "archives").iterdir()))
def test_a_hostile_archive_is_refused_and_nothing_is_written(
    archive: str, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify", str(INPUTS / "archives" / archive), "--allow-unsigned"]) == 1
    assert archive in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def failed_json(words: list[str], capfd: Any) -> tuple[int, str, str]:
    status = main([*words, "--json"])
    printed, said = capfd.readouterr()
    document = msgspec.json.decode(printed)
    assert list(document) == ["error"]
    return status, document["error"], said


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["inspect", "/nonexistent/x.mindie"], 1, "/nonexistent/x.mindie"),
        (["build", "x.onnx", "-o", "x.mindie", "--name", "x", "--version", "1"], 2, "--version: '1'"),
        (["build", "x.onnx"], 2, "the following arguments are required: -o/--output, --name, --version"),
        (
            ["build", "x.onnx", "-o", "x.mindie", "--name", "x", "--version", "1.0.0", "--max-drop", "much"],
            2,
            "max-drop",
        ),
        (["levitate"], 2, "levitate"),
        (["pull", "http://127.0.0.1:1/models/x:1.0.0", "-o", "x.mindie"], 1, "--allow-unsigned accepts it"),
    ],
)
def test_a_failure_with_json_is_one_document_on_stdout_and_the_same_line_on_stderr(
    words: list[str], status: int, told: str, capfd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended, error, said = failed_json(words, capfd)
    assert ended == status
    assert told in error
    assert said.strip().splitlines()[-1] == f"mindpack: {error}"


def test_verify_with_json_says_that_nobody_signed(tmp_path: Path, capfd: Any) -> None:
    status, error, _ = failed_json(["verify", str(stub_bundle(tmp_path / "b.mindie"))], capfd)
    assert status == 1
    assert "unsigned" in error


def test_an_interrupted_command_says_so(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_args: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("packager.cli.toolchain._list", interrupted)
    assert failed_json(["toolchain", "list"], capfd)[:2] == (130, "interrupted")


def test_a_wrong_version_is_refused_before_a_toolchain_is_installed(tmp_path: Path, capfd: Any) -> None:
    words = ["build", str(tmp_path / "none.onnx"), "-o", str(tmp_path / "x.mindie"), "--name", "x", "--version", "1"]
    assert main([*words, "--install-toolchains"]) == 2
    assert capfd.readouterr().err.startswith("mindpack: --version: ")


@pytest.mark.parametrize("words", [[], ["toolchain"]])
def test_a_command_without_a_verb_shows_its_help_with_an_example(words: list[str], capfd: Any) -> None:
    assert main(words) == 2
    assert capfd.readouterr().out.startswith(" ".join(["usage: mindpack", *words]))


def every_parser(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield top
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from every_parser(below)


def test_every_option_and_argument_has_a_help_text_and_every_command_an_example() -> None:
    for each in every_parser(parser()):
        options = [action for action in each._actions if not isinstance(action, argparse._SubParsersAction)]
        assert all(action.help for action in options), each.prog
        assert "example" in (each.epilog or ""), each.prog
