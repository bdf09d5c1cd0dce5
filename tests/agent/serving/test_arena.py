from __future__ import annotations

import mmap
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.serving.arena import Arena, Slot, create_memory, map_memory

SIZE = 1 << 20


@pytest.fixture(scope="module")
def memory() -> mmap.mmap:
    descriptor = create_memory("test", SIZE)
    mapped = map_memory(descriptor, SIZE, writable=True)
    os.close(descriptor)
    return mapped


@settings(max_examples=100)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, SIZE // 3), st.integers(0, 200)), max_size=40))
def test_slots_never_overlap_are_aligned_and_all_room_comes_back(
    memory: mmap.mmap, steps: list[tuple[bool, int, int]]
) -> None:
    arena = Arena(memory, begin=4096, keep_bytes=8192)
    held: list[Slot] = []
    for take, size, at in steps:
        if take or not held:
            slot = arena.allocate(size, aligned_at=min(at, size))
            if slot is None:
                continue
            assert (slot.offset + min(at, size)) % 64 == 0
            assert slot.start >= 4096
            assert slot.start <= slot.offset
            assert slot.offset + slot.size <= slot.start + slot.room <= SIZE
            assert all(
                slot.start + slot.room <= other.start or other.start + other.room <= slot.start for other in held
            )
            arena.view(slot)[:] = bytes([len(held) % 251]) * size
            held.append(slot)
        else:
            arena.free(held.pop(size % len(held)))
    for slot in held:
        arena.free(slot)
    assert arena.used_bytes == 0
    assert arena.allocate(SIZE - 4096) is not None


def test_what_is_held_keeps_its_bytes_when_a_neighbour_gives_its_pages_back(memory: mmap.mmap) -> None:
    arena = Arena(memory, keep_bytes=0)
    slots = [slot for _ in range(20) if (slot := arena.allocate(50_001)) is not None]
    for number, slot in enumerate(slots):
        arena.view(slot)[:] = bytes([number + 1]) * slot.size
    for slot in slots[::2]:
        arena.free(slot)
    for number, slot in list(enumerate(slots))[1::2]:
        assert bytes(arena.view(slot)) == bytes([number + 1]) * slot.size


def test_a_large_slot_gives_its_memory_back_to_the_system() -> None:
    descriptor = create_memory("test", 64 << 20)
    arena = Arena(map_memory(descriptor, 64 << 20, writable=True))
    slot = arena.allocate(48 << 20)
    assert slot is not None
    view = arena.view(slot)
    for position in range(0, slot.size, 4096):
        view[position] = 1
    assert os.fstat(descriptor).st_blocks * 512 >= 48 << 20
    arena.free(slot)
    assert os.fstat(descriptor).st_blocks * 512 <= 9 << 20
    view.release()
    os.close(descriptor)


def test_more_than_there_is_gives_none(memory: mmap.mmap) -> None:
    arena = Arena(memory)
    assert arena.allocate(SIZE + 1) is None
    assert arena.allocate(SIZE) is not None
    assert arena.allocate(1) is None
