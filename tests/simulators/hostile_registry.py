"""A registry on 127.0.0.1 that serves blobs and misbehaves on request: a working server, not a mock."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_RANGE = re.compile(r"bytes=(\d+)-")


@dataclass
class Registry:
    """``blobs`` by digest. Faults, each until taken back:

    cut_after: send only so many body bytes of a blob and close; ``cuts`` says how many answers still do.
    ignore_range: 200 and everything. wrong_offset: 206 from another place. no_range: 416 to every range.
    lie_length: announce more than is there. gzip: say that the body is compressed. corrupt: flip a byte.
    stall: send a little and then nothing more. drip: one byte at a time, slowly. status: answer with it.
    etag: changes at will. no_blob_manifests: manifests are only under /manifests/.
    """

    blobs: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None
    cuts: int = 0
    ignore_range: bool = False
    wrong_offset: bool = False
    no_range: bool = False
    lie_length: int = 0
    gzip: bool = False
    corrupt: int = 0
    stall: bool = False
    drip: bool = False
    status: list[int] = field(default_factory=list)
    etag: str | None = '"1"'
    no_blob_manifests: frozenset[str] = frozenset()
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    sent_bytes: int = 0
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)

    def ranges(self) -> list[str | None]:
        """The Range header of each blob request, in order."""
        return [wanted for path, wanted in self.seen if "/blobs/" in path]


@contextlib.contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Serve until the block ends."""

    class Handler(_Handler):
        hostile = registry

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients that hang up are what these tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        registry.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hostile: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        it = self.hostile
        wanted = self.headers.get("Range")
        it.seen.append((self.path, wanted))
        _, kind, digest = self.path.rsplit("/", 2)
        data = it.blobs.get(digest)
        if it.status:
            self._refuse(it.status.pop(0))
        elif data is None or (kind == "blobs" and digest in it.no_blob_manifests):
            self._refuse(404)
        elif kind == "manifests":
            self._send(200, data, {})
        else:
            self._blob(data, wanted)

    def log_message(self, *args: object) -> None:
        """Silent."""

    def _blob(self, data: bytes, wanted: str | None) -> None:
        it = self.hostile
        if it.corrupt:
            it.corrupt -= 1
            data = bytes([data[0] ^ 1]) + data[1:]
        match = _RANGE.fullmatch(wanted or "")
        if_range = self.headers.get("If-Range")
        if match and not it.ignore_range and (if_range is None or if_range == it.etag):
            start = int(match.group(1))
            if it.no_range or start >= len(data):
                self._refuse(416)
                return
            told = start + 7 if it.wrong_offset else start
            self._send(206, data[told:], {"Content-Range": f"bytes {told}-{len(data) - 1}/{len(data)}"})
        else:
            self._send(200, data, {})

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        it = self.hostile
        self.send_response(status)
        if it.etag is not None:
            self.send_header("ETag", it.etag)
        if it.gzip:
            self.send_header("Content-Encoding", "gzip")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) + it.lie_length))
        self.end_headers()
        with contextlib.suppress(OSError):
            self._body(data)

    def _body(self, data: bytes) -> None:
        it = self.hostile
        if it.cuts and it.cut_after is not None:
            it.cuts -= 1
            data = data[: it.cut_after]
            self.close_connection = True
        if it.lie_length:
            self.close_connection = True
        if it.stall:
            self.wfile.write(data[:10])
            self.wfile.flush()
            it.released.wait(10)
            self.close_connection = True
            return
        if it.drip:
            for position in range(len(data)):
                self.wfile.write(data[position : position + 1])
                if it.released.wait(0.02):
                    return
            return
        it.sent_bytes += len(data)
        self.wfile.write(data)
