"""The server's end of the sockets to an engine: a model's data socket and the control socket."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable
from typing import Any

import msgspec

from agent.serving import engine_wire
from agent.serving.engine_wire import Answer, Failure, Free, Part, Run, RunTogether
from agent.serving.framing import FrameReader, frame
from agent.serving.live_model import LiveModel
from edge_contracts.inference_wire import Tensor


class FrameProtocol(asyncio.Protocol):
    """Whole frames to ``on_frame``, the end of the connection to ``on_lost``."""

    def __init__(self, on_frame: Callable[[memoryview], None], on_lost: Callable[[], None]) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._reader = FrameReader()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        for found in self._reader.feed(data):
            self._on_frame(found)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """See asyncio."""
        self._on_lost()

    def send(self, message: msgspec.Struct) -> None:
        """Queue ``message`` for sending."""
        self.transport.write(frame(msgspec.msgpack.encode(message)))


class EngineChannel(asyncio.Protocol):
    """Carries one model's requests to the engine and its answers back.

    ``answers``: the model's answer memory. ``on_lost`` is called when the engine closes the socket, not when we do.
    """

    def __init__(self, live: LiveModel, answers: mmap.mmap, on_lost: Callable[[], None]) -> None:
        self._live = live
        self._on_lost = on_lost
        self._is_closed = False
        self._answers = answers
        self._view = memoryview(answers)
        self._reader = FrameReader()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(engine_wire.FromEngineData)
        self._transport: Any = None
        self._to_free: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        for found in self._reader.feed(data):
            reply: Answer | Failure = self._decoder.decode(found)
            outputs = [self._copied(part) for part in reply.outputs] if isinstance(reply, Answer) else []
            self._live.replied(reply, outputs)
        if self._to_free:
            self._write(Free(self._to_free))
            self._to_free = []

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """See asyncio."""
        if not self._is_closed:
            self._on_lost()

    def send(self, message: Run | RunTogether) -> None:
        """See live_model.Channel."""
        self._write(message)

    def running(self) -> int:
        """See live_model.Channel."""
        number: int = engine_wire.RUNNING.unpack_from(self._answers, 0)[0]
        return number

    def close(self) -> None:
        """See live_model.Channel."""
        self._is_closed = True
        self._transport.close()

    def _write(self, message: msgspec.Struct) -> None:
        if not self._transport.is_closing():  # else the engine's death is about to be told, and all is sent again
            self._transport.write(frame(self._encoder.encode(message)))

    def _copied(self, part: Part) -> Tensor:
        """The server's own copy of an output: the engine may use the memory again after Free."""
        spec = self._live.signature.outputs[part.index]
        if part.inline is not None:
            return Tensor(spec.name, spec.dtype, part.shape, bytes(part.inline))
        self._to_free.append(part.offset)
        return Tensor(spec.name, spec.dtype, part.shape, bytes(self._view[part.offset : part.offset + part.size]))
