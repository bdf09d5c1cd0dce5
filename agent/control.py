"""DATA/control.sock: how a command talks to the daemon that holds DATA/lock.

One request, lines of progress, one answer:

    -> {"verb": "install", "arguments": {"path": "/a/b.mindie", "allow_unsigned": true}}
    <- {"progress": "reading"}                any number
    <- {"answer": {...}}  or  {"error": "one line"}

The socket has mode 0600: who may write to the data folder may command the daemon.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from agent.errors import AgentError
from edge_contracts.errors import ContractError

_log = logging.getLogger(__name__)
MAX_REQUEST_BYTES = 64 * 1024
REQUEST_TIMEOUT_S = 10.0
ENDED_EARLY = "the daemon ended before it answered: see its log"
Progress = Callable[[str], None]
Handler = Callable[[str, dict[str, Any], Progress], Any]
"""(verb, arguments, progress) -> what can be written as JSON. Raises AgentError."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a command asks."""

    verb: str
    arguments: dict[str, Any] = {}


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the daemon: exactly one field is set."""

    progress: str | None = None
    answer: Any = None
    error: str | None = None


class ControlServer:
    """Listens; one thread per connection, since an installation takes its time."""

    def __init__(self, data_dir: Path, handler: Handler) -> None:
        self._data_dir = data_dir
        self._path = data_dir / "control.sock"
        self._handler = handler
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Begin to answer. The caller holds DATA/lock, so what lies there is left over. Raises OSError."""
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short_path(self._data_dir) as short:
            before = os.umask(0o177)
            try:
                listener.bind(short)
            finally:
                os.umask(before)
        listener.listen(8)
        self._socket = listener
        threading.Thread(target=self._accept, args=(listener,), name="control", daemon=True).start()

    def stop(self) -> None:
        """Take the socket away; a request that is being answered goes on until its process ends."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
            self._path.unlink(missing_ok=True)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), name="control-request", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(REQUEST_TIMEOUT_S)
                request = _read_request(connection)

                def progress(text: str) -> None:
                    # A command that has gone away must not stop what it started.
                    with contextlib.suppress(OSError):
                        _send(connection, Reply(progress=text))

                reply = Reply(answer=self._handler(request.verb, request.arguments, progress))
            except (AgentError, ContractError) as error:
                reply = Reply(error=str(error))
            except OSError as error:
                reply = Reply(error=f"{error.filename or 'connection'}: {error.strerror or error}")
            except Exception as error:  # noqa: BLE001 - a bug in one request must not silence the others; it is logged
                _log.exception("control request failed")
                reply = Reply(error=f"internal error: {type(error).__name__}: {error}")
            with contextlib.suppress(OSError):
                _send(connection, reply)


def ask_daemon(data_dir: Path, verb: str, arguments: dict[str, Any], progress: Progress) -> Any | None:
    """The daemon's answer; None when no daemon listens there. Raises AgentError with the daemon's own words."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with connection:
        try:
            with _short_path(data_dir) as short:
                connection.connect(short)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise AgentError(f"{data_dir / 'control.sock'}: not allowed: run as the daemon's user") from error
        with _daemon_errors(), connection.makefile("rb") as lines:
            _send(connection, Request(verb=verb, arguments=arguments))
            for line in lines:
                reply = msgspec.json.decode(line, type=Reply)
                if reply.progress is not None:
                    progress(reply.progress)
                elif reply.error is not None:
                    raise AgentError(reply.error)
                else:
                    return reply.answer if reply.answer is not None else {}
    raise AgentError(ENDED_EARLY)


@contextlib.contextmanager
def _daemon_errors() -> Iterator[None]:
    """A daemon that dies leaves half a line or a reset connection."""
    try:
        yield
    except (ConnectionError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AgentError(ENDED_EARLY) from error


def _read_request(connection: socket.socket) -> Request:
    data = b""
    while b"\n" not in data:
        chunk = connection.recv(4096)
        if not chunk or len(data) > MAX_REQUEST_BYTES:
            raise AgentError("the request is cut short or too long")
        data += chunk
    try:
        return msgspec.json.decode(data.partition(b"\n")[0], type=Request)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AgentError(f"the request is not readable: {error}") from error


def _send(connection: socket.socket, message: msgspec.Struct) -> None:
    connection.sendall(msgspec.json.encode(message) + b"\n")


@contextlib.contextmanager
def _short_path(data_dir: Path) -> Iterator[str]:
    """A path to the socket that fits the 107 bytes of a Unix address, however deep the data folder lies."""
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/control.sock"
    finally:
        os.close(descriptor)
