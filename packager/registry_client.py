"""An OCI registry over HTTP: the parts of the distribution specification that a bundle needs, by plain requests.

Uploads go in chunks; one that breaks goes on where the registry says it stopped. Downloads resume by Range, and start
again where the server ignores it. Redirects to another host lose the credential (requests does that).
Source: https://github.com/opencontainers/distribution-spec/blob/main/spec.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from edge_contracts import oci
from packager.errors import RecipeRefused, RegistryFailed

CHUNK_BYTES = 8 * 1024 * 1024
READ_BYTES = 1024 * 1024
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
TIMEOUT_S = (10.0, 60.0)
ATTEMPTS = 4
_REFERENCE = re.compile(r"(?P<repository>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?P<tag>\w[\w.-]{0,127})|@(?P<digest>sha256:[0-9a-f]{64}))?")  # noqa: E501  # fmt: skip


@dataclass(frozen=True)
class Reference:
    """``https://HOST/REPOSITORY[:TAG|@DIGEST]``."""

    base: str
    repository: str
    tag: str | None


def parse_reference(text: str) -> Reference:
    """``oci://`` means https. Raises RecipeRefused."""
    parts = urlsplit(text)
    match = _REFERENCE.fullmatch(parts.path.lstrip("/").removeprefix("v2/"))
    if parts.scheme not in ("http", "https", "oci") or not parts.hostname or match is None or parts.query:
        raise RecipeRefused("URL", f"{text[:120]!r} is not https://HOST/REPOSITORY[:TAG]")
    if parts.username or parts.password:
        raise RecipeRefused("URL", "holds a password; give it by --token-file or MINDEDGE_TOKEN")
    scheme = "https" if parts.scheme == "oci" else parts.scheme
    return Reference(f"{scheme}://{parts.netloc}", match["repository"], match["tag"] or match["digest"])


@dataclass
class RegistryClient:
    """One repository. ``sleep`` waits between attempts. Close it after use."""

    reference: Reference
    sleep: Callable[[float], None]
    token: str | None = None
    chunk_bytes: int = CHUNK_BYTES
    session: requests.Session = field(default_factory=requests.Session)

    def has_blob(self, digest: str) -> bool:
        """Whether the registry holds the blob."""
        return self._send("HEAD", self._url(f"blobs/{digest}"), {404}).status_code == 200

    def has_manifest(self, reference: str) -> bool:
        """Whether the registry holds the manifest or index."""
        return self._send("HEAD", self._url(f"manifests/{reference}"), {404}, headers=_ACCEPT).status_code == 200

    def put_manifest(self, reference: str, content: bytes, media_type: str) -> None:
        """Store a manifest or index under a digest or tag."""
        self._send("PUT", self._url(f"manifests/{reference}"), data=content, headers={"Content-Type": media_type})

    def manifest(self, reference: str) -> bytes:
        """A manifest's or index's exact bytes."""
        answer = self._send("GET", self._url(f"manifests/{reference}"), headers=_ACCEPT)
        if len(answer.content) > MAX_MANIFEST_BYTES:
            raise RegistryFailed(self.reference.base, f"manifest {reference} has {len(answer.content)} bytes")
        return answer.content

    def upload(self, digest: str, size: int, chunks: Iterator[bytes]) -> None:
        """Send a blob in pieces. ``chunks`` is read once; a piece that broke is sent again from where it stopped."""
        location = self._send("POST", self._url("blobs/uploads/"), headers={"Content-Length": "0"}).headers["Location"]
        at = 0
        for piece in _pieces(chunks, self.chunk_bytes):
            location = self._upload_piece(location, piece, at)
            at += len(piece)
        if at != size:
            raise RegistryFailed(self.reference.base, f"blob {digest} is {at} bytes, {size} expected")
        url = self._absolute(location)
        url += ("&" if "?" in url else "?") + f"digest={digest}"
        self._send("PUT", url, headers={"Content-Length": "0", "Content-Type": "application/octet-stream"})

    def download(self, digest: str, size: int | None, path: Path) -> None:
        """Fetch a blob to ``path``, resuming; the digest is checked at the end. ``size`` None: a small one."""
        max_bytes = MAX_MANIFEST_BYTES if size is None else size
        for attempt in range(ATTEMPTS):
            try:
                self._fetch(digest, path, max_bytes)
            except (requests.RequestException, RegistryFailed):
                if attempt + 1 == ATTEMPTS:
                    raise
            if path.stat().st_size >= (size or 0):
                break
            self.sleep(0.5 * 2**attempt)
        actual = _digest(path)
        if actual != digest:
            path.unlink()
            raise RegistryFailed(self.reference.base, f"blob {digest} came with changed bytes ({actual})")

    def close(self) -> None:
        """Drop the connections."""
        self.session.close()

    def _fetch(self, digest: str, path: Path, max_bytes: int) -> None:
        have = path.stat().st_size if path.exists() else 0
        headers = (
            {"Range": f"bytes={have}-", "Accept-Encoding": "identity"} if have else {"Accept-Encoding": "identity"}
        )
        with self._send("GET", self._url(f"blobs/{digest}"), {416}, headers=headers, stream=True) as answer:
            if answer.status_code == 416:
                path.unlink(missing_ok=True)
                path.touch()
                return
            resumed = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            with path.open("ab" if resumed else "wb") as file:
                left = max_bytes - (have if resumed else 0)
                for part in answer.iter_content(READ_BYTES):
                    left -= file.write(part)
                    if left < 0:
                        raise RegistryFailed(self.reference.base, f"blob {digest} is longer than {max_bytes} bytes")

    def _upload_piece(self, location: str, piece: bytes, start: int) -> str:
        done = 0
        for attempt in range(ATTEMPTS):
            headers = {
                "Content-Range": f"{start + done}-{start + len(piece) - 1}",
                "Content-Type": "application/octet-stream",
            }
            try:
                answer = self._send("PATCH", self._absolute(location), data=piece[done:], headers=headers)
            except (requests.ConnectionError, requests.Timeout):
                if attempt + 1 == ATTEMPTS:
                    raise
                self.sleep(0.5 * 2**attempt)
                location, received = self._upload_state(location)
                done = max(0, received - start)
                if done >= len(piece):
                    return location
            else:
                return answer.headers.get("Location", location)
        return location

    def _upload_state(self, location: str) -> tuple[str, int]:
        """Where the upload goes on, and how many bytes the registry has: ``Range: 0-N``."""
        answer = self._send("GET", self._absolute(location))
        received = answer.headers.get("Range", "0--1").rpartition("-")[2]
        return answer.headers.get("Location", location), int(
            received
        ) + 1 if received.isdigit() and received != "0" else 0

    def _send(self, method: str, url: str, expected: set[int] | None = None, **more: Any) -> requests.Response:
        headers: Mapping[str, str] = more.pop("headers", {})
        if self.token:
            headers = {**headers, "Authorization": f"Bearer {self.token}"}
        answer = self.session.request(method, url, headers=headers, timeout=TIMEOUT_S, **more)
        if answer.status_code < 300 or answer.status_code in (expected or ()):
            return answer
        raise RegistryFailed(self.reference.base, f"{method} {urlsplit(url).path}: {_refusal(answer)}")

    def _url(self, rest: str) -> str:
        return f"{self.reference.base}/v2/{self.reference.repository}/{rest}"

    def _absolute(self, location: str) -> str:
        url = urljoin(self.reference.base, location)
        if urlsplit(url).netloc != urlsplit(self.reference.base).netloc and self.token:
            raise RegistryFailed(self.reference.base, f"sends uploads to another host, {urlsplit(url).netloc}")
        return url


_ACCEPT = {"Accept": f"{oci.INDEX_MEDIA_TYPE}, {oci.MANIFEST_MEDIA_TYPE}"}


def _pieces(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of ``size``, the last one shorter; none for no bytes."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)


def _refusal(answer: requests.Response) -> str:
    if answer.status_code in (401, 403):
        return f"{answer.status_code}: the registry wants a credential: --token-file F or MINDEDGE_TOKEN"
    text = " ".join(answer.text[:200].split()) if not answer.raw.closed or answer.content else ""
    return f"{answer.status_code} {answer.reason} {text}".strip()


def _digest(path: Path) -> str:
    from packager.file_digest import file_digest

    return file_digest(path)
