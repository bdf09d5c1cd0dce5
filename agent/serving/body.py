"""Where a request's body is collected: in shared memory when its length is known and large, else in memory of its own.

All bodies in flight count against one budget, so that clients cannot make the server grow without bound.
"""

from __future__ import annotations

import zlib
from typing import Protocol

from agent.errors import RequestRefused
from agent.serving.arena import Arena, Slot

_FULL = "the memory for request bodies is in use: try again"
_STEP_BYTES = 16 * 1024
_CHUNK_BYTES = 256 * 1024


class Body(Protocol):
    """Bytes as they come in. After ``release`` nothing of it may be used."""

    def write(self, data: bytes) -> None:
        """Append. Raises RequestRefused (413, 503)."""

    def view(self) -> memoryview:
        """What has been written so far."""

    def release(self) -> None:
        """Give the memory back; calling it again does nothing."""


class MemoryBudget:
    """Bytes of bodies outside of shared memory."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0

    def take(self, count: int) -> None:
        """Raises RequestRefused (503) when that much is not left."""
        if self.used_bytes + count > self._limit_bytes:
            raise RequestRefused(503, _FULL)
        self.used_bytes += count

    def give_back(self, count: int) -> None:
        """The inverse of take."""
        self.used_bytes -= count


class GrowingBody:
    """A body of unknown or small length."""

    def __init__(self, max_bytes: int, budget: MemoryBudget) -> None:
        self._data = bytearray()
        self._max_bytes = max_bytes
        self._budget = budget
        self._taken = 0

    def write(self, data: bytes) -> None:
        """See Body."""
        length = len(self._data) + len(data)
        if length > self._max_bytes:
            raise RequestRefused(413, too_large(self._max_bytes))
        if length > self._taken:
            step = max(_STEP_BYTES, length - self._taken)
            self._budget.take(step)
            self._taken += step
        self._data += data

    def view(self) -> memoryview:
        """See Body."""
        return memoryview(self._data)

    def release(self) -> None:
        """See Body."""
        self._budget.give_back(self._taken)
        self._taken = 0
        self._data = bytearray()


class SharedBody:
    """A body of known length, in a slot that engines can read. ``room()`` is what is still to be filled."""

    def __init__(self, arena: Arena, slot: Slot) -> None:
        self._arena = arena
        self._slot: Slot | None = slot
        self._view = arena.view(slot)
        self._filled = 0
        self.offset = slot.offset

    def write(self, data: bytes) -> None:
        """See Body."""
        self._view[self._filled : self._filled + len(data)] = data
        self._filled += len(data)

    def room(self) -> memoryview:
        """Where the next bytes go; read into it, then call ``advance``."""
        return self._view[self._filled :]

    def advance(self, count: int) -> None:
        """``count`` bytes have been put into ``room()``."""
        self._filled += count

    def view(self) -> memoryview:
        """See Body."""
        return self._view[: self._filled]

    def release(self) -> None:
        """See Body."""
        if self._slot is not None:
            self._arena.free(self._slot)
            self._slot = None


def shared_body(arena: Arena, length: int, aligned_at: int) -> SharedBody:
    """Room for ``length`` bytes with byte ``aligned_at`` on a 64-byte boundary. Raises RequestRefused (503)."""
    slot = arena.allocate(length, aligned_at=aligned_at)
    if slot is None:
        raise RequestRefused(503, _FULL)
    return SharedBody(arena, slot)


def too_large(max_bytes: int) -> str:
    """The reason of a 413."""
    return f"the request body is larger than {max_bytes} bytes"


def inflate(encoding: bytes, body: Body, into: GrowingBody) -> None:
    """Unpack a ``gzip`` or ``deflate`` (zlib) body. Raises RequestRefused (400, 413, 503); memory stays bounded."""
    decompressor = zlib.decompressobj(31 if encoding == b"gzip" else 15)
    packed: bytes | memoryview = body.view()
    try:
        while packed and not decompressor.eof:
            into.write(decompressor.decompress(packed, _CHUNK_BYTES))
            packed = decompressor.unconsumed_tail
    except zlib.error as error:
        raise RequestRefused(400, f"the body is not {encoding.decode()}: {error}") from error
    if not decompressor.eof or decompressor.unused_data:
        raise RequestRefused(400, f"the body is not one whole {encoding.decode()} stream")
