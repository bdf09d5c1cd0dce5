"""The engine's thread for one model, over a real socket and real shared memory, with a session that the test gives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from agent.errors import BackendError
from agent.serving import engine_wire
from agent.serving.arena import create_memory, map_memory
from agent.serving.engine_wire import Answer, Failure, Free, Part, Run, RunTogether
from agent.serving.framing import BlockingFrames, frame
from agent.serving.session_worker import SessionWorker
from edge_contracts.inference_wire import join_bytes_elements
from edge_contracts.tensor_signature import Signature
from tests.agent.serving.signatures import signature_of

MEMORY_BYTES = 4 << 20
NON_UTF8 = join_bytes_elements([b"ab", b"", b"\xff\xfe"])


class Session:
    """Answers with ``function(x)`` as output y."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.is_closed = False
        self.calls = 0

    def infer(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        self.calls += 1
        return {"y": self._function(inputs["x"])}

    def close(self) -> None:
        self.is_closed = True


class Bench:
    """The server's end of a worker."""

    def __init__(self, function: Callable[[Any], Any], signature: Signature) -> None:
        self.session = Session(function)
        self.requests = map_memory(create_memory("r", MEMORY_BYTES), MEMORY_BYTES, writable=True)
        self.answers = map_memory(create_memory("a", MEMORY_BYTES), MEMORY_BYTES, writable=True)
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(10)
        worker = SessionWorker(self.session, signature, theirs, self.requests, self.answers)
        self.thread = threading.Thread(target=worker.serve)
        self.thread.start()
        self._frames = BlockingFrames(self.ours)

    def send(self, *messages: msgspec.Struct) -> None:
        self.ours.sendall(b"".join(frame(msgspec.msgpack.encode(message)) for message in messages))

    def receive(self) -> Answer | Failure:
        found = self._frames.next()
        assert found is not None
        reply: Answer | Failure = msgspec.msgpack.decode(bytes(found), type=engine_wire.FromEngineData)
        return reply

    def close(self) -> None:
        self.ours.close()
        self.thread.join(10)


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(function: Callable[[Any], Any], signature: Signature | None = None) -> Bench:
        made.append(Bench(function, signature or signature_of()))
        return made[-1]

    yield make
    for one in made:
        one.close()


def rows(*values: float) -> Part:
    data = np.repeat(np.array(values, dtype=np.float32), 8)
    return Part(0, (len(values), 8), memoryview(data.tobytes()))


def floats(part: Part) -> list[float]:
    assert part.inline is not None
    return list(np.frombuffer(part.inline, dtype=np.float32)[::8])


def test_a_small_request_is_answered_inline_with_its_times(bench: Callable[..., Bench]) -> None:
    worker = bench(lambda x: x * 2)
    worker.send(Run(7, [rows(1, 2)], [0]))
    answer = worker.receive()
    assert isinstance(answer, Answer)
    assert (answer.number, answer.batch) == (7, 1)
    assert floats(answer.outputs[0]) == [2, 4]
    assert min(answer.started_ns, answer.input_ns, answer.infer_ns, answer.output_ns) > 0


@pytest.mark.parametrize("offset", [0, 64, 1, 3, 4094])
def test_large_tensors_travel_in_shared_memory_at_any_offset(bench: Callable[..., Bench], offset: int) -> None:
    worker = bench(lambda x: x + 1)
    data = np.arange(80_000, dtype=np.float32)
    worker.requests[offset : offset + data.nbytes] = data.tobytes()
    for number in range(1, 40):  # far more than the answer memory holds, were it not freed
        worker.send(Run(number, [Part(0, (10_000, 8), None, offset, data.nbytes)], [0]))
        answer = worker.receive()
        assert isinstance(answer, Answer)
        part = answer.outputs[0]
        assert part.inline is None
        got = np.frombuffer(worker.answers[part.offset : part.offset + part.size], dtype=np.float32)
        assert np.array_equal(got, data + 1)
        worker.send(Free([part.offset]))


def test_an_answer_that_does_not_fit_the_memory_comes_inline(bench: Callable[..., Bench]) -> None:
    worker = bench(lambda x: np.zeros((200_000, 8), dtype=np.float32))
    worker.send(Run(1, [rows(1)], [0]))
    answer = worker.receive()
    assert isinstance(answer, Answer)
    assert answer.outputs[0].inline is not None
    assert len(answer.outputs[0].inline) == 6_400_000


def test_bytes_of_any_kind_pass_unchanged(bench: Callable[..., Bench]) -> None:
    worker = bench(lambda x: x, signature_of("BYTES", ["n"]))
    worker.send(Run(1, [Part(0, (3,), memoryview(NON_UTF8))], [0]))
    answer = worker.receive()
    assert isinstance(answer, Answer)
    assert bytes(answer.outputs[0].inline or b"") == NON_UTF8


@pytest.mark.parametrize("dtype", ["FP16", "BF16", "BOOL", "INT64", "FP64", "UINT8"])
def test_every_dtype_passes_unchanged(bench: Callable[..., Bench], dtype: str) -> None:
    worker = bench(lambda x: x, signature_of(dtype, ["n"]))
    size = {"FP16": 2, "BF16": 2, "BOOL": 1, "INT64": 8, "FP64": 8, "UINT8": 1}[dtype]
    data = bytes([1, 0] * (2 * size))
    worker.send(Run(1, [Part(0, (4,), memoryview(data))], [0]))
    answer = worker.receive()
    assert isinstance(answer, Answer)
    assert bytes(answer.outputs[0].inline or b"") == data


def test_an_output_of_another_dtype_or_layout_is_sent_as_the_signature_says(bench: Callable[..., Bench]) -> None:
    worker = bench(lambda x: np.asfortranarray(x.astype(np.float64)))
    worker.send(Run(1, [rows(1, 2, 3)], [0]))
    answer = worker.receive()
    assert isinstance(answer, Answer)
    assert floats(answer.outputs[0]) == [1, 2, 3]


def raising(error: Exception) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    "function",
    [raising(BackendError("r", "no\nsuch luck")), raising(ValueError("odd")), lambda x: None, lambda x: "text"],
)
def test_a_run_that_fails_is_one_failure_and_the_next_one_runs(bench: Callable[..., Bench], function: Any) -> None:
    calls: list[int] = []

    def first_fails(x: Any) -> Any:
        calls.append(1)
        return function(x) if len(calls) == 1 else x

    worker = bench(first_fails)
    worker.send(Run(1, [rows(1)], [0]), Run(2, [rows(5)], [0]))
    failure = worker.receive()
    assert isinstance(failure, Failure)
    assert failure.number == 1
    assert failure.reason
    assert "\n" not in failure.reason
    answer = worker.receive()
    assert isinstance(answer, Answer)
    assert floats(answer.outputs[0]) == [5]


def test_requests_run_together_are_answered_each_with_its_rows(bench: Callable[..., Bench]) -> None:
    worker = bench(lambda x: x * 10)
    worker.send(RunTogether([Run(1, [rows(1)], [0]), Run(2, [rows(2, 3)], [0]), Run(3, [rows(4)], [0])]))
    replies = [worker.receive() for _ in range(3)]
    assert [floats(reply.outputs[0]) for reply in replies if isinstance(reply, Answer)] == [[10], [20, 30], [40]]
    assert [reply.batch for reply in replies if isinstance(reply, Answer)] == [3, 3, 3]
    assert worker.session.calls == 1


def test_a_batch_that_fails_is_run_one_by_one(bench: Callable[..., Bench]) -> None:
    def picky(x: Any) -> Any:
        if float(x.max()) > 2:
            raise BackendError("r", "too large")
        return x

    worker = bench(picky)
    worker.send(RunTogether([Run(1, [rows(1)], [0]), Run(2, [rows(3)], [0]), Run(3, [rows(2)], [0])]))
    assert [type(worker.receive()) for _ in range(3)] == [Answer, Failure, Answer]


def test_the_running_request_is_written_down_while_it_runs(bench: Callable[..., Bench]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(x: Any) -> Any:
        begun.set()
        go_on.wait(60)
        return x

    worker = bench(wait)
    worker.send(Run(42, [rows(1)], [0]))
    assert begun.wait(60)
    assert engine_wire.RUNNING.unpack_from(worker.answers, 0)[0] == 42
    go_on.set()
    worker.receive()
    worker.close()
    assert engine_wire.RUNNING.unpack_from(worker.answers, 0)[0] == 0
    assert worker.session.is_closed
