from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from edge_contracts._version import __version__
from tests.agent.cli.mindie import document, mindie, refused, with_runtimes_known
from tests.simulators import bundle_factory


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_factory.stub_bundle(tmp_path_factory.mktemp("bundles") / "affine-1.0.0.mindie")


@pytest.fixture(scope="module")
def better(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "affine-1.1.0.mindie"
    return bundle_factory.stub_bundle(path, version="1.1.0", notes={"what": "the same model"})


@pytest.fixture
def quick() -> list[str]:
    return ["--allow-unsigned", "--race-budget", "2"]


def test_the_version_is_told() -> None:
    assert mindie("--version").stdout == f"mindie {__version__}\n"


@pytest.mark.parametrize(
    "command",
    ["run", "enroll", "install", "serve", "status", "history", "rollback", "explain", "probe", "bench", "doctor"],
)
def test_each_command_has_help_with_an_example(command: str) -> None:
    result = mindie(command, "--help")
    assert result.returncode == 0
    assert "example" in result.stdout
    assert f"mindie {command}" in result.stdout


def test_a_bundle_is_installed_shown_explained_and_rolled_back(
    tmp_path: Path, bundle: Path, better: Path, quick: list[str]
) -> None:
    data = with_runtimes_known(tmp_path / "data")
    first = document(mindie("install", bundle, "--data", data, "--json", *quick))
    assert (first["state"], first["active"]["version"], first["healthy"]) == ("committed", "1.0.0", True)
    document(mindie("install", better, "--data", data, "--json", *quick))
    status = document(mindie("status", "--data", data, "--json"))
    assert {"state", "active", "last_good", "in_flight", "healthy", "models"} <= status.keys()
    assert status["active"] == status["models"][0]["active"]
    assert (status["active"]["version"], status["last_good"]["version"]) == ("1.1.0", "1.0.0")
    assert {"name", "version", "digest"} <= status["active"].keys()
    assert document(mindie("explain", "--data", data, "--json"))["chosen"]["variant"] == "stub-fp32-cpu"
    assert "stub-fp32-cpu" in mindie("explain", "affine", "--data", data).stdout
    back = document(mindie("rollback", "--data", data, "--json"))
    assert (back["active"]["version"], back["last_good"]) == ("1.0.0", None)
    gone = document(mindie("rollback", "affine", "--data", data, "--json"))
    assert gone["active"] is None
    states = [entry["state"] for entry in document(mindie("history", "--data", data, "--json"))]
    assert states == ["committed"] * 4
    refused(mindie("rollback", "--data", data), "nothing is installed")


def test_an_unsigned_bundle_is_refused_and_then_shown_as_unsigned(
    tmp_path: Path, bundle: Path, quick: list[str]
) -> None:
    data = with_runtimes_known(tmp_path / "data")
    refused(mindie("install", bundle, "--data", data), "unsigned", "--allow-unsigned")
    installed = mindie("install", bundle, "--data", data, *quick)
    assert "UNSIGNED" in installed.stderr
    assert "UNSIGNED" in mindie("status", "--data", data).stdout
    assert "\x1b" not in installed.stderr


def test_a_damaged_bundle_fails_and_what_was_installed_stays(
    tmp_path: Path, bundle: Path, quick: list[str]
) -> None:  # fmt: skip
    data = with_runtimes_known(tmp_path / "data")
    document(mindie("install", bundle, "--data", data, "--json", *quick))
    damaged = bundle_factory.stub_bundle(tmp_path / "bad.mindie", version="2.0.0", damaged=True)
    refused(mindie("install", damaged, "--data", data, *quick), "golden")
    status = document(mindie("status", "--data", data, "--json"))
    assert (status["state"], status["error_code"]) == ("failed", "golden_mismatch")
    assert status["active"]["version"] == "1.0.0"


@pytest.mark.parametrize(
    "content", [b"<!DOCTYPE html><html>", b"version https://git-lfs.github.com/spec/v1\n", b"", b"\0" * 2048]
)
def test_a_file_that_is_no_bundle_is_named(tmp_path: Path, content: bytes, quick: list[str]) -> None:
    path = tmp_path / "page.mindie"
    path.write_bytes(content)
    refused(mindie("install", path, "--data", tmp_path / "data", *quick), "page.mindie", "not a MindEdge bundle")


def test_a_bundle_cut_short_or_changed_is_named(tmp_path: Path, bundle: Path, quick: list[str]) -> None:
    data = bundle.read_bytes()
    short = tmp_path / "short.mindie"
    short.write_bytes(data[: len(data) - 9000])
    refused(mindie("install", short, "--data", tmp_path / "data", *quick), "short.mindie")
    refused(mindie("install", tmp_path / "gone.mindie", "--data", tmp_path / "data"), "gone.mindie", "No such file")


def test_an_empty_device_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert document(mindie("status", "--data", data, "--json"))["models"] == []
    assert "no model is installed" in mindie("status", "--data", data).stdout
    assert document(mindie("history", "--data", data, "--json")) == []
    refused(mindie("explain", "--data", data), "no model")
    refused(mindie("status", "--data", data, "--model", "digits"), "'digits'")
    assert not data.exists()


def test_wrong_use_is_one_line_and_exit_2(tmp_path: Path) -> None:
    refused(mindie("run", "--data", tmp_path, "--port", "70000"), "--port", code=2)
    refused(mindie("run", "--data", tmp_path, "--cpus", "900"), "--cpus", code=2)
    refused(mindie("status", "--data", tmp_path, "--config", tmp_path / "no.toml"), "no.toml", code=2)
    refused(mindie("enroll", "--data", tmp_path), "--token-file", code=2)
    refused(mindie("enroll", "--data", tmp_path, "--token-file", "-", stdin="rubbish\n"), "mindedge1.")
    refused(mindie("enroll", "--data", tmp_path, "--token-file", tmp_path / "t"), "--token-file", code=2)
    assert mindie("fly").returncode == 2


def test_a_missing_extra_is_told_as_a_pip_line(tmp_path: Path) -> None:
    hiding = tmp_path / "sitecustomize.py"
    hiding.write_text("import sys\nsys.modules['requests'] = None\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    token = "mindedge1.eyJzZXJ2ZXIiOiJodHRwOi8vMTI3LjAuMC4xOjEiLCJzZWNyZXQiOiJ4In0"
    result = mindie("enroll", "--data", tmp_path, "--token-file", "-", environ={"PYTHONPATH": path}, stdin=token)
    refused(result, "pip install 'mindedge[agent]'", code=2)


def test_a_bug_is_one_line_and_its_traceback_comes_on_request(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import agent.config\nagent.config.load_config = lambda *_: 1 / 0\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    refused(mindie("status", environ={"PYTHONPATH": path}), "internal error: ZeroDivisionError", "MINDEDGE_DEBUG=1")
    assert "Traceback" in mindie("status", environ={"PYTHONPATH": path, "MINDEDGE_DEBUG": "1"}).stderr


def test_a_failure_with_json_is_one_document_with_the_same_words_and_exit_status(tmp_path: Path) -> None:
    for code, words in [
        (1, ["status", "--data", tmp_path, "--model", "digits"]),
        (1, ["install", tmp_path / "gone.mindie", "--data", tmp_path]),
        (2, ["enroll", "--data", tmp_path]),
    ]:
        result = mindie(*words, "--json", environ={"MINDEDGE_TOKEN": ""})
        line = refused(result, code=code)
        assert result.stdout.count("\n") == 1
        assert line == "mindie: " + json.loads(result.stdout)["error"]
        assert mindie(*words, environ={"MINDEDGE_TOKEN": ""}).stdout == ""
    wrong = mindie("status", "--json", "--nonsense")
    assert (wrong.returncode, list(json.loads(wrong.stdout))) == (2, ["error"])
