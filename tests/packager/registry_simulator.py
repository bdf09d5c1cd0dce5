"""An OCI registry in memory, over real HTTP, that breaks off where it is told to."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Registry:
    """``break_upload_after`` bytes, once; ``break_download_after`` bytes, once; ``ignore_range``: always from 0."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    break_upload_after: int | None = None
    break_download_after: int | None = None
    ignore_range: bool = False
    change_bytes: bool = False
    token: str | None = None


@contextmanager
def serving(registry: Registry) -> Iterator[str]:
    """The registry's address while it runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_args: Any) -> None:
            registry.requests.append(f"{self.command} {self.path}")

        def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _stored(self) -> bytes | None:
            kind, _, name = self.path.rpartition("/")
            return (registry.manifests if kind.endswith("manifests") else registry.blobs).get(name)

        def _allowed(self) -> bool:
            if registry.token and self.headers.get("Authorization") != f"Bearer {registry.token}":
                self._answer(401)
                return False
            return True

        def do_HEAD(self) -> None:
            if self._allowed():
                self._answer(200 if self._stored() is not None else 404)

        def do_GET(self) -> None:
            if "/uploads/" in self.path:
                have = len(registry.uploads[self.path.rpartition("/")[2]])
                self._answer(204, Location=self.path, Range=f"0-{max(have - 1, 0)}")
                return
            data = self._stored()
            if data is None:
                self._answer(404)
                return
            match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            start = int(match[1]) if match and not registry.ignore_range else 0
            part = data[start:]
            if registry.change_bytes and "/blobs/" in self.path:
                part = part[:-1] + bytes([part[-1] ^ 1])
            self.send_response(206 if start else 200)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            limit = registry.break_download_after
            if limit is not None and len(part) > limit:
                registry.break_download_after = None
                part = part[:limit]
                self.close_connection = True
            self.wfile.write(part)

        def do_POST(self) -> None:
            name = f"u{len(registry.uploads)}"
            registry.uploads[name] = bytearray()
            self._answer(202, Location=f"{self.path}{name}")

        def do_PATCH(self) -> None:
            upload = registry.uploads[self.path.rpartition("/")[2]]
            length = int(self.headers["Content-Length"])
            start = int(self.headers["Content-Range"].partition("-")[0])
            if start != len(upload):
                self._answer(416)
                return
            limit = registry.break_upload_after
            if limit is not None and length > limit:
                registry.break_upload_after = None
                upload += self.rfile.read(limit)
                self.close_connection = True
                self.connection.close()
                return
            upload += self.rfile.read(length)
            self._answer(202, Location=self.path, Range=f"0-{len(upload) - 1}")

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if "/manifests/" in self.path:
                registry.manifests[self.path.rpartition("/")[2]] = body
                registry.manifests[_digest(body)] = body
            else:
                parts = urlsplit(self.path)
                data = bytes(registry.uploads.pop(parts.path.rpartition("/")[2]))
                digest = parse_qs(parts.query)["digest"][0]
                if _digest(data) != digest:
                    self._answer(400, b"digest invalid")
                    return
                registry.blobs[digest] = data
            self._answer(201)

    return Handler
