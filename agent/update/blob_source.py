"""Seam: where the blobs of a bundle come from. Drivers: registry_source.py (HTTP), archive_source.py (a file).

A source promises nothing about the bytes: whoever reads hashes them and counts them against the size that is expected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Stream:
    """Bytes of a blob from ``start`` on (0 when the source cannot begin elsewhere), in chunks of any size.

    ``tag`` changes when the source holds other bytes under the same name (an ETag); None when it does not tell.
    """

    start: int
    chunks: Iterator[bytes]
    tag: str | None = None


class BlobSource(Protocol):
    """Used by one thread at a time. Errors: SourceFailed, which says whether trying again makes sense."""

    @property
    def name(self) -> str:
        """For messages: an address without credentials, or a path."""

    def index(self, bundle_digest: str, max_bytes: int) -> bytes:
        """The index of the bundle. More than ``max_bytes`` raises SourceFailed."""

    def open(self, blob: str, offset: int, tag: str | None) -> Stream:
        """Begin to read a blob at ``offset``, if it is still the one with ``tag``; the source may begin at 0 instead.

        Iterating raises SourceFailed when the connection breaks or stalls.
        """
