"""An OCI registry (the fleet server, a mirror) as a source, over HTTP with requests.

Bodies are taken as they are on the wire: a server that compresses, or answers another range than asked for, is refused
rather than interpreted. No redirect leaves with our credentials: requests drops them for another host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Protocol

import requests

from agent.config import DownloadConfig
from agent.errors import SourceFailed
from agent.update.blob_source import Stream
from edge_contracts import oci

READ_BYTES = 64 * 1024
_MANIFESTS = f"{oci.INDEX_MEDIA_TYPE}, {oci.MANIFEST_MEDIA_TYPE}"
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_TRANSIENT = {408, 425, 429}


class RegistryLogin(Protocol):
    """How a device shows who it is."""

    @property
    def device(self) -> str:
        """User name."""

    @property
    def password(self) -> str:
        """Never shown, never logged."""


def make_session(config: DownloadConfig, login: RegistryLogin | None) -> requests.Session:
    """The one place where HTTP sessions of the update are made: proxy, CA, credentials."""
    session = requests.Session()
    session.headers["Accept-Encoding"] = "identity"
    session.trust_env = config.proxy is None  # HTTP(S)_PROXY and NO_PROXY of the environment; no ~/.netrc: auth is set
    if config.proxy is not None:
        session.proxies = {"http": config.proxy, "https": config.proxy}
    if config.ca_file is not None:
        session.verify = config.ca_file
    if login is not None:
        session.auth = (login.device, login.password)
    return session


class RegistrySource:
    """Blobs of one repository. ``monotonic`` judges stalls."""

    def __init__(
        self, server: str, repository: str, session: requests.Session, config: DownloadConfig,
        monotonic: Callable[[], float],
    ) -> None:  # fmt: skip
        self._root = f"{server.rstrip('/')}/v2/{repository}"
        self._session = session
        self._config = config
        self._monotonic = monotonic

    @property
    def name(self) -> str:
        return self._root

    def index(self, bundle_digest: str, max_bytes: int) -> bytes:
        with self._get(f"manifests/{bundle_digest}", {"Accept": _MANIFESTS}) as response:
            self._refuse_status(response, {HTTPStatus.OK})
            data = bytearray()
            for chunk in self._read(response):
                data += chunk
                if len(data) > max_bytes:
                    raise SourceFailed(f"{response.url}: over {max_bytes} bytes", is_transient=False)
        return bytes(data)

    def open(self, blob: str, offset: int, tag: str | None) -> Stream:
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        if offset and tag is not None:
            headers["If-Range"] = tag
        response = self._get_blob(blob, headers)
        if offset and not _continues(response, offset):
            # The server cannot go on from here: 416, or another range than asked for. From the start, then.
            response.close()
            offset, response = 0, self._get_blob(blob, {})
        try:
            self._refuse_status(response, {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT})
        except SourceFailed:
            response.close()
            raise
        start = offset if response.status_code == HTTPStatus.PARTIAL_CONTENT else 0
        return Stream(start, self._closing(response), _strong_tag(response.headers.get("ETag")))

    def _get_blob(self, blob: str, headers: dict[str, str]) -> requests.Response:
        response = self._get(f"blobs/{blob}", headers)
        if response.status_code != HTTPStatus.NOT_FOUND:
            return response
        # A manifest is a blob only to some registries.
        response.close()
        return self._get(f"manifests/{blob}", {**headers, "Accept": _MANIFESTS})

    def _get(self, path: str, headers: dict[str, str]) -> requests.Response:
        timeout = (self._config.connect_timeout_s, self._config.stall_timeout_s)
        try:
            return self._session.get(f"{self._root}/{path}", headers=headers, stream=True, timeout=timeout)
        except requests.RequestException as error:
            raise SourceFailed(f"{self._root}: {_short(error)}", is_transient=True) from error

    def _refuse_status(self, response: requests.Response, accepted: set[HTTPStatus]) -> None:
        code = response.status_code
        if code not in accepted:
            transient = code >= HTTPStatus.INTERNAL_SERVER_ERROR or code in _TRANSIENT
            raise SourceFailed(f"{response.url}: the server answered {code} {response.reason}", is_transient=transient)
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding not in ("", "identity"):
            raise SourceFailed(f"{response.url}: compressed with {encoding}, not asked for", is_transient=True)

    def _closing(self, response: requests.Response) -> Iterator[bytes]:
        with response:
            yield from self._read(response)

    def _read(self, response: requests.Response) -> Iterator[bytes]:
        """Chunks as they come; at least ``stall_bytes`` in every ``stall_timeout_s``, or it is a stall."""
        read = getattr(response.raw, "read1", None) or response.raw.read
        window_start, window_bytes = self._monotonic(), 0
        while True:
            try:
                chunk = read(READ_BYTES, decode_content=False)
            except Exception as error:
                # urllib3 and http.client have several error trees, sockets raise OSError: all mean a broken connection.
                raise SourceFailed(f"{self._root}: {_short(error)}", is_transient=True) from error
            if not chunk:
                return
            yield chunk
            window_bytes += len(chunk)
            elapsed_s = self._monotonic() - window_start
            if elapsed_s > self._config.stall_timeout_s:
                if window_bytes < self._config.stall_bytes:
                    raise SourceFailed(f"{self._root}: {window_bytes} bytes in {elapsed_s:.0f} s", is_transient=True)
                window_start, window_bytes = self._monotonic(), 0


def _continues(response: requests.Response, offset: int) -> bool:
    """Whether the answer to a Range request can be used: all from 0 on, or exactly from ``offset`` on, or an error."""
    if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return False
    if response.status_code != HTTPStatus.PARTIAL_CONTENT:
        return True
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    return match is not None and int(match.group(1)) == offset


def _strong_tag(tag: str | None) -> str | None:
    return tag if tag and not tag.startswith("W/") else None


def _short(error: Exception) -> str:
    """The innermost reason, in one line: requests wraps urllib3 wraps the socket."""
    reason: BaseException = error
    while (inner := getattr(reason, "reason", None)) is not None and isinstance(inner, BaseException):
        reason = inner
    text = str(reason.args[0] if reason.args and isinstance(reason.args[0], BaseException) else reason)
    return (text.split(": ", 1)[-1] or type(reason).__name__).replace("\n", " ")[:200]
