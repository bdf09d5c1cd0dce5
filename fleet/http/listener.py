"""The HTTP server in a thread of its own; the socket is bound before anything else starts."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from typing import Any

import uvicorn

from fleet.errors import AddressInUse, ConfigurationError

BACKLOG = 2048
KEEP_ALIVE_S = 30
STOP_GRACE_S = 5


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 chooses a free one. Raises AddressInUse; ConfigurationError for a host not ours."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError("--host", f"{host!r} is no address of this machine ({error.strerror})") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(BACKLOG)  # two sockets may share an address until one listens: the other must learn of it here
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(host, port) from error
        raise ConfigurationError("--host", f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listener


class HttpListener:
    """Serves ``app`` on ``listener``, which it then owns."""

    def __init__(self, app: Any, listener: socket.socket) -> None:
        self._listener = listener
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", backlog=BACKLOG, server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=STOP_GRACE_S,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Lets requests in hand end for a few seconds."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(2 * STOP_GRACE_S)
        self._listener.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listener]))
