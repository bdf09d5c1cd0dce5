"""The server's data folder: one server at a time, the operator's token, and where the running server is found.

DATA/lock  DATA/operator.token (0600)  DATA/server.json  DATA/fleet.db  DATA/registry/  DATA/broker/
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fleet.broker.private_file import write_private
from fleet.errors import ConfigurationError, DataFolderLocked

TOKEN_FILE = "operator.token"  # noqa: S105 - a file's name
SERVER_FILE = "server.json"
TOKEN_BYTES = 32


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """What a running server leaves for commands on the same machine."""

    url: str
    mqtt_port: int
    pid: int


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Makes the folder (0700) and holds its lock. Raises DataFolderLocked, ConfigurationError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError("--data", f"{folder} cannot be used: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataFolderLocked(str(folder)) from error
        yield
    finally:
        os.close(descriptor)


def make_private(file: Path) -> None:
    """An empty file that only its owner may read, before a library makes it otherwise; one that is there is closed.

    SQLite gives its journals the mode of the database.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def operator_token(folder: Path, random_text: Callable[[int], str] = secrets.token_urlsafe) -> str:
    """The operator's token, made at the first start. Raises ConfigurationError when its file is damaged."""
    path = folder / TOKEN_FILE
    if not path.exists():
        write_private(path, random_text(TOKEN_BYTES) + "\n")
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if len(token) < TOKEN_BYTES or not token.isascii():
        raise ConfigurationError(str(path), "holds no operator token: remove it and a new one is made")
    return token


def announce(folder: Path, server: RunningServer) -> None:
    """Says where the server is."""
    write_private(folder / SERVER_FILE, msgspec.json.encode(server).decode() + "\n")


def withdraw(folder: Path) -> None:
    """The server has stopped."""
    (folder / SERVER_FILE).unlink(missing_ok=True)


def announced(folder: Path) -> RunningServer | None:
    """Where a server of this folder said it is; None when none did."""
    try:
        return msgspec.json.decode((folder / SERVER_FILE).read_bytes(), type=RunningServer)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
