from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.serving.framing import BlockingFrames, FrameReader, frame


@given(st.lists(st.binary(max_size=300), max_size=12), st.integers(1, 64))
def test_frames_come_out_whole_however_the_stream_is_cut(payloads: list[bytes], step: int) -> None:
    stream = b"".join(map(frame, payloads))
    reader, found = FrameReader(), []
    for at in range(0, len(stream), step):
        found += [bytes(one) for one in reader.feed(stream[at : at + step])]
    assert found == payloads


def test_a_blocking_reader_takes_small_and_huge_frames_and_ends_with_its_peer() -> None:
    payloads = [b"a", b"", b"x" * 1_000_000, b"b" * 3, b"y" * 700_000, *[bytes([n]) * n for n in range(200)]]
    ours, theirs = socket.socketpair()

    def write() -> None:
        with theirs:
            theirs.sendall(b"".join(map(frame, payloads)))

    writer = threading.Thread(target=write)
    writer.start()
    with ours:
        frames = BlockingFrames(ours)
        for payload in payloads:
            found = frames.next()
            assert found is not None
            assert bytes(found) == payload
        assert frames.next() is None
    writer.join()


def test_a_length_that_no_peer_sends_is_refused() -> None:
    with pytest.raises(ConnectionError):
        list(FrameReader().feed(b"\xff\xff\xff\xff"))
