"""Fetching blobs into the store: resumed over restarts, hashed on the way, never appended to what is something else.

A blob gets its name in the store only when its bytes are whole and have its digest. Until then it is
``downloads/<hex>.part``, with what the source called it in ``downloads/<hex>.json``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from agent.config import DownloadConfig
from agent.disk import Disk, make_private
from agent.errors import SourceFailed, UpdateError, UpdateInterrupted
from agent.update.blob_source import BlobSource, Stream
from agent.update.effects import Interrupt, Progress
from agent.update.slots import CHUNK_BYTES, Slots
from edge_contracts import oci
from edge_contracts.bundle import MAX_JSON_BYTES
from edge_contracts.errors import ContractError

MAX_MISMATCHES = 3
PROGRESS_BYTES = 8 * 1024 * 1024
T = TypeVar("T")


class WrongBytes(UpdateError):
    """What came has not the digest or size that names it; the part is gone."""

    def __init__(self, reason: str) -> None:
        super().__init__("digest", reason)


class PartNote(msgspec.Struct, frozen=True):
    """What is known of a part: the source's tag for the bytes."""

    tag: str | None = None


@dataclass(frozen=True)
class Pacing:
    """Time as a download sees it. ``pause(seconds, interrupt)`` returns early when ``interrupt`` may have changed."""

    monotonic: Callable[[], float]
    pause: Callable[[float, Interrupt], None]
    rng: random.Random


class Downloader:
    """Fetches from ``sources`` in turn until a blob is here, a permanent refusal of all of them, or an interrupt."""

    def __init__(self, slots: Slots, disk: Disk, config: DownloadConfig, pacing: Pacing) -> None:
        self._slots = slots
        self._disk = disk
        self._config = config
        self._pacing = pacing

    def index(self, sources: Sequence[BlobSource], bundle_digest: str, interrupt: Interrupt) -> bytes:
        """The bundle's index, also kept as a blob. Raises UpdateError, UpdateInterrupted."""
        return self._small(
            sources, bundle_digest, interrupt, lambda source: source.index(bundle_digest, MAX_JSON_BYTES)
        )

    def small(self, sources: Sequence[BlobSource], blob: str, interrupt: Interrupt) -> bytes:
        """A blob of JSON whose size is not known here, at most MAX_JSON_BYTES. Raises as ``index``."""

        def read(source: BlobSource) -> bytes:
            data = bytearray()
            for chunk in source.open(blob, 0, None).chunks:
                data += chunk
                if len(data) > MAX_JSON_BYTES:
                    raise WrongBytes(f"{source.name}: blob {blob} is over {MAX_JSON_BYTES} bytes")
            return bytes(data)

        return self._small(sources, blob, interrupt, read)

    def blob(
        self, sources: Sequence[BlobSource], blob: str, size: int, progress: Progress, interrupt: Interrupt
    ) -> None:
        """The blob is in the store, whole. Raises UpdateError (codes download, digest, no_space), UpdateInterrupted."""
        if not self._slots.has(blob, size):
            part = _Part(self._slots.downloads, blob, size)
            self._persist(sources, interrupt, lambda source: self._fetch(source, part, progress, interrupt))

    def _small(
        self, sources: Sequence[BlobSource], blob: str, interrupt: Interrupt, read: Callable[[BlobSource], bytes]
    ) -> bytes:
        if self._slots.has(blob):
            with contextlib.suppress(ContractError):  # a damaged copy is fetched again
                return self._slots.read(blob)

        def fetch(source: BlobSource) -> bytes:
            data = read(source)
            if oci.sha256_digest(data) != blob:
                raise WrongBytes(f"{source.name}: bytes of {blob} have changed")
            with _disk_errors(self._slots.downloads):
                built = _Part(self._slots.downloads, blob, len(data)).path
                make_private(built.parent)
                built.write_bytes(data)
                self._slots.add(blob, built, hashed=True)
            return data

        return self._persist(sources, interrupt, fetch)

    def _persist(self, sources: Sequence[BlobSource], interrupt: Interrupt, attempt: Callable[[BlobSource], T]) -> T:
        """Try the sources in turn, with growing pauses, for as long as it makes sense."""
        usable, failures, mismatches = list(sources), 0, 0
        while True:
            _stop_if(interrupt)
            source = usable[failures % len(usable)]
            failures += 1
            try:
                return attempt(source)
            except WrongBytes:
                mismatches += 1
                if mismatches >= MAX_MISMATCHES:
                    raise
            except SourceFailed as error:
                if not error.is_transient:
                    usable.remove(source)
                    if not usable:
                        raise
            ceiling_s = min(self._config.longest_retry_s, self._config.first_retry_s * 2.0 ** min(failures - 1, 20))
            self._pacing.pause(self._pacing.rng.uniform(0, ceiling_s), interrupt)

    def _fetch(self, source: BlobSource, part: _Part, progress: Progress, interrupt: Interrupt) -> None:
        """One attempt: go on with the part that is here, or from the start when the source cannot."""
        have, sha = part.resume()
        if have < part.size:
            stream = source.open(part.blob, have, part.tag if have else None)
            if stream.start != have or (have and stream.tag != part.tag):
                have, sha, stream = self._start_over(source, part, stream)
            with _disk_errors(self._slots.downloads):
                part.note(stream.tag)
                with part.path.open("ab") as file:
                    have = self._copy(stream.chunks, file, have, sha, part, progress, interrupt)
        if have < part.size:
            raise SourceFailed(f"{source.name}: ended after {have} of {part.size} bytes", is_transient=True)
        if "sha256:" + sha.hexdigest() != part.blob:
            part.drop()
            raise WrongBytes(f"{source.name}: bytes of {part.blob} have changed")
        with _disk_errors(self._slots.downloads):
            self._slots.add(part.blob, part.path, hashed=True)
        part.drop()

    def _start_over(self, source: BlobSource, part: _Part, stream: Stream) -> tuple[int, hashlib._Hash, Stream]:
        """From byte 0: the source ignored the range, or holds other bytes now. Never append to what was."""
        part.drop()
        if stream.start != 0:
            stream = source.open(part.blob, 0, None)
            if stream.start != 0:
                raise SourceFailed(f"{source.name}: does not begin at the start", is_transient=True)
        return 0, hashlib.sha256(), stream

    def _copy(
        self, chunks: Iterator[bytes], file: IO[bytes], have: int, sha: hashlib._Hash, part: _Part,
        progress: Progress, interrupt: Interrupt,
    ) -> int:  # fmt: skip
        started_s, before, told = self._pacing.monotonic(), have, have
        for chunk in chunks:
            if have + len(chunk) > part.size:
                part.drop()
                raise WrongBytes(f"blob {part.blob} is longer than the {part.size} bytes its manifest says")
            file.write(chunk)
            sha.update(chunk)
            have += len(chunk)
            if have - told >= PROGRESS_BYTES:
                told = have
                progress(f"{part.blob[7:19]}: {have / 1e6:.1f} of {part.size / 1e6:.1f} MB")
            _stop_if(interrupt)
            if self._config.max_bytes_per_s:
                due_s = (have - before) / self._config.max_bytes_per_s
                self._pacing.pause(max(0.0, due_s - (self._pacing.monotonic() - started_s)), interrupt)
        return have


class _Part:
    """A blob on its way."""

    def __init__(self, folder: Path, blob: str, size: int) -> None:
        hexadecimal = blob.removeprefix("sha256:")
        self.blob = blob
        self.size = size
        self.path = folder / f"{hexadecimal}.part"
        self._note = folder / f"{hexadecimal}.json"

    @property
    def tag(self) -> str | None:
        """What the source called these bytes."""
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=PartNote).tag
        except (OSError, msgspec.MsgspecError):
            return None

    def note(self, tag: str | None) -> None:
        """Remember the tag; losing it costs nothing but the resume."""
        make_private(self._note.parent)
        self._note.write_bytes(msgspec.json.encode(PartNote(tag)))

    def resume(self) -> tuple[int, hashlib._Hash]:
        """How many bytes are here, and their hash so far; a part that is too long is dropped."""
        sha = hashlib.sha256()
        have = 0
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha.update(chunk)
                have += len(chunk)
        if have > self.size:
            self.drop()
            return 0, hashlib.sha256()
        return have, sha

    def drop(self) -> None:
        """Forget it."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


def _stop_if(interrupt: Interrupt) -> None:
    if interrupt():
        raise UpdateInterrupted("download stopped")


@contextlib.contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """A full disk frees what was half fetched, so that the report of it can be written."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            for path in list(folder.glob("*")):
                path.unlink(missing_ok=True)
            raise UpdateError("no_space", f"the disk of {folder} is full: free some space and try again") from error
        raise UpdateError("internal", f"{folder}: cannot be written: {error.strerror}") from error
