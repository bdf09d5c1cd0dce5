"""Shared memory for tensors: one memfd, mapped by server and engines, handed out in slots by the one side that owns it.

The owner allocates and frees; the other side only reads or writes where a message told it to. The file is sparse: pages
cost memory once touched, and those beyond ``keep_bytes`` are given back when the last slot there is freed.
"""

from __future__ import annotations

import bisect
import mmap
import os
from dataclasses import dataclass

ALIGNMENT = 64
KEEP_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Slot:
    """``size`` bytes at ``offset``; ``start`` and ``room`` are the whole block with its alignment slack."""

    offset: int
    size: int
    start: int
    room: int


class Arena:
    """First fit from the low end, so that a quiet device touches few pages. Not thread-safe: one owner thread."""

    def __init__(self, memory: mmap.mmap, *, begin: int = 0, keep_bytes: int = KEEP_BYTES) -> None:
        self._memory = memory
        self._view = memoryview(memory)
        self._free: list[tuple[int, int]] = [(begin, len(memory) - begin)]
        self._begin = begin
        self._keep_bytes = keep_bytes
        self.used_bytes = 0

    def allocate(self, size: int, *, aligned_at: int = 0) -> Slot | None:
        """A slot whose byte ``aligned_at`` lies on a 64-byte boundary; None when there is no room."""
        for position, (start, length) in enumerate(self._free):
            offset = _aligned(start + aligned_at) - aligned_at
            room = _aligned(offset + size) - start
            if room > length and offset + size - start <= length:
                room = length
            if room > length:
                continue
            if room == length:
                del self._free[position]
            else:
                self._free[position] = (start + room, length - room)
            self.used_bytes += room
            return Slot(offset, size, start, room)
        return None

    def view(self, slot: Slot) -> memoryview:
        """The slot's bytes."""
        return self._view[slot.offset : slot.offset + slot.size]

    def free(self, slot: Slot) -> None:
        """Give a slot back. Each slot is freed once."""
        self.used_bytes -= slot.room
        start, end = slot.start, slot.start + slot.room
        position = bisect.bisect_left(self._free, (start, 0))
        if position < len(self._free) and self._free[position][0] == end:
            end += self._free.pop(position)[1]
        if position > 0 and sum(self._free[position - 1]) == start:
            position -= 1
            start = self._free.pop(position)[0]
        self._free.insert(position, (start, end - start))
        self._return_pages(start, end, slot)

    def _return_pages(self, start: int, end: int, slot: Slot) -> None:
        """Pages of the freed slot above the kept part, widened to whole free pages, go back to the system."""
        first = max(start, self._begin + self._keep_bytes, _page_down(slot.start))
        first = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
        last = _page_down(min(end, -(-(slot.start + slot.room) // mmap.PAGESIZE) * mmap.PAGESIZE))
        if last > first:
            self._memory.madvise(mmap.MADV_REMOVE, first, last - first)


def create_memory(name: str, size: int) -> int:
    """A new sparse memfd of ``size`` bytes; the caller closes it. Raises OSError."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    return descriptor


def map_memory(descriptor: int, size: int, *, writable: bool) -> mmap.mmap:
    """Map a memfd; the descriptor may be closed afterwards."""
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return mmap.mmap(descriptor, size, mmap.MAP_SHARED, protection)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _page_down(offset: int) -> int:
    return offset // mmap.PAGESIZE * mmap.PAGESIZE
