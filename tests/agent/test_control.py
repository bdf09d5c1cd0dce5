from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.control import ControlServer, Progress, ask_daemon
from agent.data_lock import data_lock
from agent.errors import AgentError, ConfigurationError, DataFolderLocked


def handler(verb: str, arguments: dict[str, Any], progress: Progress) -> Any:
    if verb == "work":
        progress("one")
        progress("two")
        return {"got": arguments}
    if verb == "bug":
        raise ZeroDivisionError("oh")
    raise AgentError(f"cannot {verb}")


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    deep = tmp_path / ("d" * 90) / "data"
    deep.mkdir(parents=True)
    server = ControlServer(deep, handler)
    server.start()
    yield deep
    server.stop()


def test_progress_and_answer_come_back_however_deep_the_folder_lies(data_dir: Path) -> None:
    heard: list[str] = []
    assert ask_daemon(data_dir, "work", {"a": 1}, heard.append) == {"got": {"a": 1}}
    assert heard == ["one", "two"]


def test_an_error_is_told_in_the_daemons_words(data_dir: Path) -> None:
    with pytest.raises(AgentError, match="cannot fly"):
        ask_daemon(data_dir, "fly", {}, lambda _: None)


def test_a_bug_in_one_request_leaves_the_others_working(data_dir: Path) -> None:
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        ask_daemon(data_dir, "bug", {}, lambda _: None)
    assert ask_daemon(data_dir, "work", {}, lambda _: None) == {"got": {}}


@pytest.mark.parametrize("garbage", [b"\xff\xfe\n", b"{}\n", b"[" * 70_000, b'{"verb": 1}\n', b""])
def test_garbage_on_the_socket_is_answered_or_dropped_and_harms_nobody(
    data_dir: Path, garbage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data_dir)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("control.sock")
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        assert b"error" in client.recv(4096)
    assert ask_daemon(data_dir, "work", {}, lambda _: None) == {"got": {}}


def test_the_socket_is_private_and_gone_when_the_daemon_stops(data_dir: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE((data_dir / "control.sock").stat().st_mode) == 0o600
    server = ControlServer(tmp_path, handler)
    server.start()
    server.stop()
    assert not (tmp_path / "control.sock").exists()
    assert ask_daemon(tmp_path, "work", {}, lambda _: None) is None


def test_a_socket_left_over_is_no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind("control.sock")
    assert ask_daemon(tmp_path, "work", {}, lambda _: None) is None
    server = ControlServer(tmp_path, handler)
    server.start()
    assert ask_daemon(tmp_path, "work", {}, lambda _: None) == {"got": {}}
    server.stop()


def test_a_folder_has_one_holder_and_is_free_again_afterwards(tmp_path: Path) -> None:
    with data_lock(tmp_path), pytest.raises(DataFolderLocked, match="pid"), data_lock(tmp_path):
        pass
    with data_lock(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="--data"), data_lock(tmp_path / "file" / "data"):
        pass


@pytest.mark.parametrize("half", [b"", b'{"answer": {"mod', b'{"progress": "x"}\n\xff', b"[1]\n"])
def test_a_daemon_that_dies_in_the_middle_of_a_line_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("control.sock")
        listener.listen(1)

        def die() -> None:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.sendall(half)
            connection.close()

        dying = threading.Thread(target=die)
        dying.start()
        with pytest.raises(AgentError, match="the daemon ended before it answered"):
            ask_daemon(tmp_path, "work", {}, lambda _: None)
        dying.join()
