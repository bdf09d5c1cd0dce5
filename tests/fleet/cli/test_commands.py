from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_contracts.archive import open_bundle
from fleet import data_folder
from fleet.__main__ import main
from fleet.cli.arguments import parser
from fleet.cli.connection import DEFAULT_SERVER, server_url, token
from fleet.cli.output import print_table, red
from fleet.config import load_config
from fleet.errors import ConfigurationError, DataFolderLocked
from fleet.registry.blob_store import BlobStore
from fleet.store.sql.unit_of_work import SqlStore
from tests.simulators.bundle_factory import stub_bundle


class Args:
    """A parsed command line."""

    def __init__(self, **given: object) -> None:
        self.data = self.server = self.token_file = self.config = None
        self.__dict__.update(given)


def test_a_bundle_without_a_signature_is_refused_before_anything_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stub_bundle(tmp_path / "b.mindie", name="digits", version="1.0.0")
    assert main(["bundle", "push", str(path), "--server", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().err.startswith("mindfleet: unsigned bundle: digits 1.0.0 has no signature")


def test_a_changed_byte_is_found_before_anything_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stub_bundle(tmp_path / "b.mindie", name="digits", version="1.0.0")
    archive = open_bundle(path)
    weights = archive.bundle.variants[0].files[0]
    data = bytearray(path.read_bytes())
    data[archive.members[weights.digest].offset] ^= 1
    path.write_bytes(bytes(data))
    assert main(["bundle", "push", str(path), "--allow-unsigned", "--server", "http://127.0.0.1:9"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(path) in error


@pytest.mark.parametrize("content", [b"<!DOCTYPE html><html>", b"version https://git-lfs.github.com/spec/v1\n", b""])
def test_a_file_that_is_no_bundle_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "x.mindie"
    path.write_bytes(content)
    assert main(["bundle", "push", str(path), "--allow-unsigned"]) == 1
    error = capsys.readouterr().err
    assert (error.count("\n"), str(path) in error) == (1, True)


def test_a_missing_file_and_a_server_that_is_not_there_are_one_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDEDGE_TOKEN", "x" * 40)
    assert main(["bundle", "push", str(tmp_path / "none"), "--allow-unsigned"]) == 1
    assert main(["device", "list", "--server", "http://127.0.0.1:9"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "No such file" in lines[0]
    assert "http://127.0.0.1:9 is not reachable (connection refused)" in lines[1]


def test_the_token_comes_from_the_flag_then_the_named_folder_then_the_environment(tmp_path: Path) -> None:
    (tmp_path / "flag").write_text("from-flag\n")
    data = tmp_path / "data"
    data.mkdir()
    home = {"HOME": str(tmp_path / "home")}
    environ = {**home, "MINDEDGE_TOKEN": "from-environment"}
    assert token(Args(data=str(data)), environ) == "from-environment"  # type: ignore[arg-type]
    (data / "operator.token").write_text("from-data\n")
    assert token(Args(data=str(data)), environ) == "from-data"  # type: ignore[arg-type]
    assert token(Args(data=str(data), token_file=str(tmp_path / "flag")), environ) == "from-flag"  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="there is no operator token"):
        token(Args(data=str(tmp_path / "empty")), home)  # type: ignore[arg-type]
    (tmp_path / "flag").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="holds no token"):
        token(Args(token_file=str(tmp_path / "flag")), environ)  # type: ignore[arg-type]


def test_the_server_is_the_one_that_runs_on_the_data_folder(tmp_path: Path) -> None:
    assert server_url(Args(data=str(tmp_path)), {}) == DEFAULT_SERVER  # type: ignore[arg-type]
    data_folder.announce(tmp_path, data_folder.RunningServer(url="http://127.0.0.1:4711", mqtt_port=1, pid=1))
    assert server_url(Args(data=str(tmp_path)), {}) == "http://127.0.0.1:4711"  # type: ignore[arg-type]
    assert server_url(Args(data=str(tmp_path), server="https://x"), {}) == "https://x"  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="--server"):
        server_url(Args(server="127.0.0.1:8080"), {})  # type: ignore[arg-type]


def test_the_operators_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    first = data_folder.operator_token(tmp_path)
    assert data_folder.operator_token(tmp_path) == first
    assert stat.S_IMODE((tmp_path / "operator.token").stat().st_mode) == 0o600
    for damaged in (b"", b"\xff" * 50):
        (tmp_path / "operator.token").write_bytes(damaged)
        with pytest.raises(ConfigurationError, match="remove it and a new one is made"):
            data_folder.operator_token(tmp_path)


@pytest.mark.parametrize("seconds", ["nan", "0", "-1", "inf"])
def test_a_token_never_lives_for_a_time_that_is_no_time(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", "--server", "http://127.0.0.1:1", "--expires-s", seconds]) == 2
    assert "--expires-s" in capsys.readouterr().err


def test_a_folder_that_others_may_enter_keeps_its_secrets_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        data_folder.operator_token(folder)
        data_folder.announce(folder, data_folder.RunningServer(url="http://x", mqtt_port=1, pid=1))
        (folder / "fleet.db").touch(mode=0o666)
        data_folder.make_private(folder / "fleet.db")
        BlobStore(folder / "registry", secrets.token_bytes).open()
        SqlStore(f"sqlite:///{folder / 'fleet.db'}").open()
    finally:
        os.umask(before)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}
    assert {name for name, mode in modes.items() if mode not in ("0o600", "0o700")} == set()
    assert {"operator.token", "fleet.db", "registry", "server.json"} <= set(modes)


def test_a_data_folder_has_one_holder_at_a_time(tmp_path: Path) -> None:
    with data_folder.held(tmp_path / "data"), pytest.raises(DataFolderLocked), data_folder.held(tmp_path / "data"):
        pass
    with data_folder.held(tmp_path / "data"):
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_configuration_is_taken_from_file_environment_and_flags_in_this_order(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('host = "0.0.0.0"\nport = 1\nmqtt_port = 2\n')
    args = Args(config=str(tmp_path / "c.toml"), data=str(tmp_path), mqtt_port="9")
    config = load_config(args, {"MINDEDGE_FLEET_PORT": "5"})
    assert (config.host, config.port, config.mqtt_port, config.data_dir) == ("0.0.0.0", 5, 9, tmp_path)


@pytest.mark.parametrize(
    ("environ", "flags", "where"),
    [({"MINDEDGE_FLEET_PRT": "1"}, {}, "MINDEDGE_FLEET_PRT"), ({}, {"port": "many"}, "--port"),
     ({}, {"port": "70000"}, "--port"), ({"MINDEDGE_FLEET_BROKER": "rabbit"}, {}, "MINDEDGE_FLEET_BROKER")],
)  # fmt: skip
def test_wrong_configuration_is_refused_naming_its_place(
    environ: dict[str, str], flags: dict[str, str], where: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_config(Args(**flags), environ)
    assert refused.value.where == where


def test_used_wrongly_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--data", str(tmp_path), "--port", "many"]) == 2
    with pytest.raises(SystemExit) as wrong:
        main(["rollout", "create", "--version", "1"])
    assert wrong.value.code == 2
    capsys.readouterr()


def commands_below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from commands_below(below)


@pytest.mark.parametrize("command", list(commands_below(parser())), ids=lambda command: command.prog)
def test_every_command_has_help_with_an_example_that_can_be_typed(command: argparse.ArgumentParser) -> None:
    help_text = command.format_help()
    assert help_text.startswith(f"usage: {command.prog}")
    examples = [
        line.strip().removeprefix("mindfleet ") for line in help_text.splitlines() if line[:12] == "  mindfleet "
    ]
    assert examples, "no example"
    for example in examples:
        parser().parse_args(re.split(r"\s{2,}", example)[0].split())
        assert example.startswith(command.prog.removeprefix("mindfleet").strip())


@pytest.mark.parametrize("url", ["fleet.db", "foo://user:secret@host/x"])
def test_a_database_that_is_none_is_used_wrongly_and_its_password_is_not_repeated(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["serve", "--data", str(tmp_path), "--port", "0", "--mqtt-port", "0", "--database", url]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--database: is no database" in said
    assert "secret" not in said


def test_a_missing_driver_names_the_extra_that_brings_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    command = ["serve", "--data", str(tmp_path), "--port", "0", "--mqtt-port", "0"]
    assert main([*command, "--database", "postgresql+psycopg://host/x"]) == 2
    assert "pip install 'mindedge[postgresql]'" in capsys.readouterr().err


def test_tables_line_up_with_wide_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "X"), [("日本語", 1), ("abc", None), ("two\nlines", 0.123456)])
    assert capsys.readouterr().out == "NAME       X\n日本語     1\nabc        -\ntwo lines  0.123\n"


def test_red_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert red("x", Terminal()) == "\x1b[31mx\x1b[0m"  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "")
    assert red("x", Terminal()) == "\x1b[31mx\x1b[0m"  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert red("x", Terminal()) == "x"  # type: ignore[arg-type]
    assert red("x") == "x"


def test_the_announcement_is_one_json_document(tmp_path: Path) -> None:
    server = data_folder.RunningServer(url="http://127.0.0.1:1", mqtt_port=2, pid=os.getpid())
    data_folder.announce(tmp_path, server)
    assert json.loads((tmp_path / "server.json").read_text())["mqtt_port"] == 2
    assert data_folder.announced(tmp_path) == server
    data_folder.withdraw(tmp_path)
    assert data_folder.announced(tmp_path) is None
