"""Uploads a bundle by OCI push: blobs that are missing, then manifests, then the index; then registers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edge_contracts import oci
from edge_contracts.archive import BundleArchive
from fleet.client import FleetClient
from fleet.errors import ClientError, ServerRefused
from fleet.http.api_types import BundleRequest, BundleView


@dataclass(frozen=True)
class Pushed:
    """What was sent, what was there, and the bundle as registered."""

    bundle: BundleView
    sent: int
    present: int
    sent_bytes: int


Progress = Callable[[int, int], None]
"""Told the bytes sent so far and the bytes to send in all."""


def push(client: FleetClient, archive: BundleArchive, progress: Progress) -> Pushed:
    """Blobs are hashed again while they are sent. Raises ClientError, DigestMismatch."""
    bundle = archive.bundle
    repository = f"/v2/{bundle.spec.name}"
    sizes = bundle.blobs()
    by_size = sorted(sizes.items(), key=lambda item: (item[1], item[0]))
    missing = [each for each in by_size if not _is_there(client, f"{repository}/blobs/{each[0]}")]
    total, before = sum(size for _, size in missing), 0
    for digest, size in missing:
        chunks = _counted(archive.blob_chunks(digest), before, total, progress)
        _upload(client, repository, digest, chunks, size)
        before += size
    _put_index(client, repository, archive)
    registered = client.register_bundle(BundleRequest(name=bundle.spec.name, digest=bundle.digest, allow_unsigned=True))
    return Pushed(registered, len(missing), len(sizes) - len(missing), total)


def _counted(chunks: Iterator[bytes], before: int, total: int, progress: Progress) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        before += len(chunk)
        progress(before, total)


def _is_there(client: FleetClient, path: str) -> bool:
    try:
        client.send("HEAD", path)
    except ServerRefused as error:
        if error.status == 404:
            return False
        raise
    return True


def _upload(client: FleetClient, repository: str, digest: str, chunks: Iterator[bytes], size: int) -> None:
    started = client.send("POST", f"{repository}/blobs/uploads/", headers={"Content-Length": "0"})
    location = started.headers.get("Location")
    if not location:
        raise ClientError(f"{client.server} does not answer as an OCI registry does: no Location")
    joint = "&" if "?" in location else "?"
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
    client.send("PUT", f"{location}{joint}digest={digest}", data=_Sized(chunks, size), headers=headers)


def _put_index(client: FleetClient, repository: str, archive: BundleArchive) -> None:
    """By digest; the tag (the version) is set only when the server has registered it, by its own catalogue."""
    headers = {"Content-Type": oci.INDEX_MEDIA_TYPE}
    path = f"{repository}/manifests/{archive.bundle.digest}"
    client.send("PUT", path, data=archive.index_bytes, headers=headers)


class _Sized:
    """An iterator with a length, so that the body is sent with Content-Length and not chunked."""

    def __init__(self, chunks: Iterator[bytes], size: int) -> None:
        self._chunks = chunks
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks
