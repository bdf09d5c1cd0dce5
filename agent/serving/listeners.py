"""Sockets to serve on, bound by whoever outlives the server process."""

from __future__ import annotations

import errno
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from agent.errors import PortInUse, ServingError

_BACKLOG = 1024


@dataclass(frozen=True)
class Bind:
    """Where to listen. Port 0: any free port. ``host`` None: only on ``uds``, a socket file's path."""

    host: str | None = "127.0.0.1"
    port: int = 8000
    uds: Path | None = None


def open_listeners(bind: Bind) -> list[socket.socket]:
    """The TCP socket first, then the Unix one, bound and listening. Raises PortInUse, ServingError."""
    listeners: list[socket.socket] = []
    try:
        if bind.host is not None:
            listeners.append(_tcp_listener(bind.host, bind.port))
        if bind.uds is not None:
            listeners.append(_unix_listener(bind.uds))
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    if not listeners:
        raise ServingError("nowhere to listen: give a host or a socket file")
    return listeners


def _tcp_listener(host: str, port: int) -> socket.socket:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise ServingError(f"cannot listen on {shown}: {error}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(shown) from error
        raise ServingError(f"cannot listen on {shown}: {error.strerror}") from error
    return listener


def _unix_listener(path: Path) -> socket.socket:
    """A socket file that nobody listens to any more is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists():
            if not stat.S_ISSOCK(path.stat().st_mode):
                raise ServingError(f"{path} exists and is no socket: choose another with --uds")
            if _is_listened_to(path):
                raise PortInUse(str(path))
            path.unlink()
        listener.bind(str(path))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ServingError(f"cannot listen on {path}: {error.strerror or error}") from error
    except ServingError:
        listener.close()
        raise
    return listener


def _is_listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
