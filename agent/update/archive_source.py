"""A bundle file as a source: `mindie install BUNDLE` with no network at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agent.errors import SourceFailed, UpdateError
from agent.update.blob_source import Stream
from edge_contracts.archive import CHUNK_BYTES, BundleArchive, open_bundle
from edge_contracts.errors import ContractError


class ArchiveSource:
    """Blobs of one ``.mindie`` file; the archive's structure is read at the first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive: BundleArchive | None = None

    @property
    def name(self) -> str:
        return str(self._path)

    def index(self, bundle_digest: str, max_bytes: int) -> bytes:
        archive = self._opened()
        if archive.bundle.digest != bundle_digest:
            raise UpdateError(
                "digest", f"{self._path}: holds bundle {archive.bundle.digest}, {bundle_digest} is wished"
            )
        if len(archive.index_bytes) > max_bytes:
            raise SourceFailed(f"{self._path}: index over {max_bytes} bytes", is_transient=False)
        return archive.index_bytes

    def open(self, blob: str, offset: int, tag: str | None) -> Stream:
        del tag  # what changed in the file shows in the digest
        member = self._opened().members.get(blob)
        if member is None:
            raise SourceFailed(f"{self._path}: does not hold blob {blob}", is_transient=False)
        return Stream(offset, self._chunks(member.offset + offset, member.size - offset))

    def _opened(self) -> BundleArchive:
        if self._archive is None:
            try:
                self._archive = open_bundle(self._path)
            except ContractError as error:
                raise UpdateError("digest", str(error)) from error
            except OSError as error:
                raise SourceFailed(f"{self._path}: {error.strerror}", is_transient=False) from error
        return self._archive

    def _chunks(self, position: int, size: int) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(position)
                while size > 0 and (chunk := file.read(min(size, CHUNK_BYTES))):
                    size -= len(chunk)
                    yield chunk
        except OSError as error:
            raise SourceFailed(f"{self._path}: {error.strerror}", is_transient=False) from error
