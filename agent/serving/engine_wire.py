"""What server and engine say to each other. msgpack, arrays for short messages; all times are CLOCK_MONOTONIC.

    control socket   server -> engine: Open;                engine -> server: Opened, OpenFailed
    handover socket  server -> engine: for each Open, one message with two descriptors: the model's data socket and its
                     answer memory
    data socket      server -> engine: Run, RunTogether, Free;  engine -> server: Answer, Failure
    request memory   written by the server, read by all engines; a slot stays until its request is answered
    answer memory    one for each opened model; bytes 0-15 hold the running request and its start, outputs lie behind;
                     the engine allocates, the server copies and says Free

An opened model is named by its ``session`` number, which is never used twice. The server closes its data socket when
the last answer is in; then the engine frees the model. When the control socket closes, the engine ends.
"""

from __future__ import annotations

import struct

import msgspec

from edge_contracts.evidence import OptionValue

SHARED_BYTES = 16 * 1024
"""Tensors from this size on travel in shared memory, smaller ones within the message."""

RUNNING = struct.Struct("<QQ")
"""Request number (0: none) and start in nanoseconds, at the beginning of the answer memory."""

ANSWER_BEGIN = 4096


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Open and warm up a variant. ``batch_sizes``: further leading sizes to run once, for dynamic batching.

    shapes: by input, the only shapes that will come.
    """

    session: int
    folder: str
    variant: str
    options: dict[str, OptionValue]
    answer_bytes: int
    batch_sizes: list[int] = []
    shapes: dict[str, list[int]] = {}


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The model is warm and listens on its data socket. ``warm_ms``: the time of one inference when warm."""

    session: int
    provider: str
    warm_ms: float


class OpenFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The model could not be opened or warmed up."""

    session: int
    reason: str


class Part(msgspec.Struct, array_like=True, frozen=True):
    """A tensor by its position in the signature: bytes inline, or ``size`` bytes at ``offset`` of shared memory."""

    index: int
    shape: tuple[int, ...]
    inline: memoryview | None
    offset: int = 0
    size: int = 0


class Run(msgspec.Struct, array_like=True, frozen=True, tag="r"):
    """One request. ``outputs``: positions of the wanted outputs."""

    number: int
    inputs: list[Part]
    outputs: list[int]


class RunTogether(msgspec.Struct, array_like=True, frozen=True, tag="b"):
    """Several requests to run as one batch along the first axis; each is answered by itself."""

    runs: list[Run]


class Free(msgspec.Struct, array_like=True, frozen=True, tag="f"):
    """Answers at these offsets have been copied."""

    offsets: list[int]


class Answer(msgspec.Struct, array_like=True, frozen=True, tag="a"):
    """Outputs in the order asked for. ``batch``: how many requests ran together."""

    number: int
    outputs: list[Part]
    started_ns: int
    input_ns: int
    infer_ns: int
    output_ns: int
    batch: int = 1


class Failure(msgspec.Struct, array_like=True, frozen=True, tag="e"):
    """The runtime refused or failed; ``reason`` is one line."""

    number: int
    reason: str


FromEngineControl = Opened | OpenFailed
ToEngineData = Run | RunTogether | Free
FromEngineData = Answer | Failure
