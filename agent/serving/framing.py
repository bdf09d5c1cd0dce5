"""Messages on a stream socket: a 4-byte little-endian length and that many bytes of msgpack."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

MAX_FRAME_BYTES = 1 << 30
_LENGTH = struct.Struct("<I")
_READ_BYTES = 256 * 1024


def frame(payload: bytes) -> bytes:
    """``payload`` with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Takes chunks as they come and yields whole frames as views, valid until the next ``feed``."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes | memoryview) -> Iterator[memoryview]:
        """Whole frames so far. Raises ConnectionError for a length that no peer of ours sends."""
        data = memoryview(b"".join([self._rest, chunk]) if self._rest else chunk)
        at = 0
        while len(data) - at >= 4:
            (length,) = _LENGTH.unpack_from(data, at)
            if length > MAX_FRAME_BYTES:
                raise ConnectionError(f"a frame of {length} bytes")
            if len(data) - at - 4 < length:
                break
            yield data[at + 4 : at + 4 + length]
            at += 4 + length
        self._rest = bytes(data[at:])


class BlockingFrames:
    """Frames of a blocking socket, for the engine's threads and the daemon's."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray(_READ_BYTES)
        self._begin = 0
        self._end = 0

    def buffered(self) -> memoryview | None:
        """The next frame if it is here already; the view is valid until the next call."""
        if self._end - self._begin < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, self._begin)
        if length > MAX_FRAME_BYTES:
            raise ConnectionError(f"a frame of {length} bytes")
        end = self._begin + 4 + length
        if end > self._end:
            return None
        view = memoryview(self._buffer)[self._begin + 4 : end]
        self._begin = end
        return view

    def next(self) -> memoryview | None:
        """Wait for the next frame; None when the peer is gone. Raises OSError (timeout included)."""
        while (found := self.buffered()) is None:
            self._make_room()
            with memoryview(self._buffer) as view:
                count = self._connection.recv_into(view[self._end :])
            if count == 0:
                return None
            self._end += count
        return found

    def _make_room(self) -> None:
        """Move what is left to the front; take a larger buffer for a larger frame, the usual one when it is done."""
        rest = bytes(self._buffer[self._begin : self._end])
        needed = _READ_BYTES
        if len(rest) >= 4:
            needed = max(needed, 4 + _LENGTH.unpack_from(rest)[0])
        if self._begin or needed != len(self._buffer):
            if needed != len(self._buffer):
                self._buffer = bytearray(needed)
            self._buffer[: len(rest)] = rest
            self._begin, self._end = 0, len(rest)
