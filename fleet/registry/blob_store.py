"""Blobs as files named by their digest. A file under ``blobs`` is complete and has the digest it is named by.

Its modification time is when somebody last asked for it: what a push found to be there is not swept before the push has
ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

from edge_contracts.bundle import MAX_JSON_BYTES
from fleet.errors import NotFound, RegistryError

CHUNK_BYTES = 256 * 1024
_UPLOAD = re.compile(r"[0-9a-f]{32}")


class BlobStore:
    """``folder`` is made by open(). Every method may be called from any thread; all of them wait for the disk."""

    def __init__(self, folder: Path, random_bytes: Callable[[int], bytes]) -> None:
        self._blobs = folder / "blobs" / "sha256"
        self._uploads = folder / "uploads"
        self._tags = folder / "tags"
        self._random_bytes = random_bytes
        self._sweeping = threading.Lock()  # held for one file at a time

    def open(self) -> None:
        """Uploads of an earlier run are dropped: their clients have gone."""
        self._blobs.parents[1].mkdir(mode=0o700, parents=True, exist_ok=True)  # whatever the umask: nobody swaps a tag
        for folder in (self._blobs, self._uploads, self._tags):
            folder.mkdir(parents=True, exist_ok=True)
        for leftover in self._uploads.iterdir():
            leftover.unlink()

    def path(self, digest: str) -> Path:
        """Raises NotFound. ``digest`` has been checked to be one."""
        if self.size(digest) is None:
            raise NotFound("blob", digest)
        return self._path(digest)

    def size(self, digest: str) -> int | None:
        """None when it is not there. A blob that was asked for is not swept for a while."""
        path = self._path(digest)
        with self._sweeping:
            if not path.is_file():
                return None
            with contextlib.suppress(OSError):  # a disk that may only be read from serves all the same
                os.utime(path)
            return path.stat().st_size

    def read_small(self, digest: str) -> bytes:
        """The whole blob, which must be small. Raises NotFound."""
        path = self.path(digest)
        if path.stat().st_size > MAX_JSON_BYTES:
            raise NotFound("small blob", digest)
        return path.read_bytes()

    def begin_upload(self) -> str:
        """The name of a new, empty upload."""
        name = self._random_bytes(16).hex()
        (self._uploads / name).touch(mode=0o600)
        return name

    def upload_path(self, name: str) -> Path:
        """Raises RegistryError for an unknown upload."""
        path = self._uploads / name
        if not _UPLOAD.fullmatch(name) or not path.is_file():
            raise RegistryError("BLOB_UPLOAD_UNKNOWN", f"no upload {name[:40]!r}")
        return path

    def finish_upload(self, name: str, digest: str) -> None:
        """Checks the digest over all bytes and moves the blob in place, on disk before it is seen.

        Raises RegistryError (DIGEST_INVALID); the upload is gone then.
        """
        path = self.upload_path(name)
        sha = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha.update(chunk)
            os.fsync(file.fileno())
        actual = f"sha256:{sha.hexdigest()}"
        if actual != digest:
            path.unlink()
            raise RegistryError("DIGEST_INVALID", f"the bytes have digest {actual}, not {digest}: push them again")
        with self._sweeping:
            path.replace(self._path(digest))
        _sync_folder(self._blobs)

    def drop_upload(self, name: str) -> None:
        """Raises RegistryError for an unknown upload."""
        self.upload_path(name).unlink()

    def put_small(self, data: bytes, digest: str) -> None:
        """Stores bytes in one go. Raises RegistryError (DIGEST_INVALID)."""
        name = self.begin_upload()
        (self._uploads / name).write_bytes(data)
        self.finish_upload(name, digest)

    def set_tag(self, repository: str, tag: str, digest: str) -> None:
        """Names are checked by the caller."""
        folder = self._tags / repository
        folder.mkdir(exist_ok=True)
        draft = self._uploads / self._random_bytes(16).hex()
        draft.write_text(digest, encoding="ascii")
        draft.replace(folder / tag)

    def tag(self, repository: str, tag: str) -> str | None:
        """The digest that a tag stands for."""
        try:
            return (self._tags / repository / tag).read_text(encoding="ascii")
        except FileNotFoundError:
            return None

    def tags(self, repository: str) -> list[str]:
        folder = self._tags / repository
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def sweep(self, keep: set[str], unused_since_s: float) -> int:
        """Removes blobs that are not in ``keep`` and that nobody asked for since that Unix time; how many.

        So it does with tags whose blob has gone, and with uploads whose client has.
        """
        gone = 0
        for path in list(self._blobs.iterdir()):
            with self._sweeping:
                if f"sha256:{path.name}" not in keep and _older(path, unused_since_s):
                    path.unlink()
                    gone += 1
        for upload in list(self._uploads.iterdir()):
            if _older(upload, unused_since_s):
                upload.unlink(missing_ok=True)
        for tag in list(self._tags.glob("*/*")):
            if not self._path(tag.read_text(encoding="ascii")).is_file():
                tag.unlink()
        return gone

    def _path(self, digest: str) -> Path:
        return self._blobs / digest.removeprefix("sha256:")


def _older(path: Path, than_s: float) -> bool:
    try:
        return path.stat().st_mtime < than_s
    except FileNotFoundError:  # an upload that has just ended
        return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
