"""What the registry needs of ASGI: headers, answers, and bodies that are streamed to and from files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec

from fleet.errors import RegistryError
from fleet.registry.blob_store import CHUNK_BYTES

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[str, str]]


class Request:
    """One request; its body is read at most once."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._started = False
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self._query = parse_qs(scope.get("query_string", b"").decode("latin-1"))

    def header(self, name: str) -> str | None:
        return self._headers.get(name)

    def query(self, name: str) -> str | None:
        values = self._query.get(name)
        return values[0] if values else None

    async def body_to(self, path: Path, max_bytes: int) -> int:
        """Appends the body to the file; the file's size then. Raises RegistryError when it grows beyond ``max_bytes``
        or the client goes away."""
        file = await asyncio.to_thread(path.open, "ab")
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise RegistryError("BLOB_UPLOAD_INVALID", "the client went away")
                await asyncio.to_thread(file.write, message.get("body", b""))
                if file.tell() > max_bytes:
                    raise RegistryError("SIZE_INVALID", f"more than {max_bytes} bytes")
                if not message.get("more_body", False):
                    return file.tell()
        finally:
            await asyncio.to_thread(file.close)

    async def small_body(self, max_bytes: int) -> bytes:
        """The body in memory. Raises RegistryError when it is larger."""
        parts: list[bytes] = []
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise RegistryError("MANIFEST_INVALID", "the client went away")
            parts.append(message.get("body", b""))
            if sum(map(len, parts)) > max_bytes:
                raise RegistryError("SIZE_INVALID", f"more than {max_bytes} bytes")
            if not message.get("more_body", False):
                return b"".join(parts)

    async def answer(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """An answer with a small body; its length is set here unless ``headers`` has one (HEAD)."""
        if not any(name == "content-length" for name, _ in headers):
            headers = [*headers, ("content-length", str(len(body)))]
        await self._start(status, headers)
        await self._send({"type": "http.response.body", "body": body})

    async def answer_file(self, status: int, headers: Headers, path: Path, start: int, end: int) -> None:
        """Bytes ``start`` to ``end`` of the file, never more than a chunk of them in memory."""
        await self._start(status, [*headers, ("content-length", str(end - start))])
        file = await asyncio.to_thread(path.open, "rb")
        try:
            left = end - start
            await asyncio.to_thread(file.seek, start, os.SEEK_SET)
            while left > 0:
                chunk = await asyncio.to_thread(file.read, min(left, CHUNK_BYTES))
                left -= len(chunk)
                await self._send({"type": "http.response.body", "body": chunk, "more_body": left > 0})
                if not chunk:
                    return
            if end == start:
                await self._send({"type": "http.response.body", "body": b""})
        finally:
            await asyncio.to_thread(file.close)

    async def refuse(self, status: int, code: str, message: str, headers: Headers | None = None) -> None:
        """The error form of the distribution specification; ``detail`` is for readers of problem documents."""
        if self._started:
            return  # half an answer is out; the client sees that it is cut short
        error = {"errors": [{"code": code, "message": message}], "title": code, "status": status, "detail": message}
        body = msgspec.json.encode(error) if self.method != "HEAD" else b""
        await self.answer(status, [("content-type", "application/json"), *(headers or [])], body)

    async def _start(self, status: int, headers: Headers) -> None:
        self._started = True
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})
