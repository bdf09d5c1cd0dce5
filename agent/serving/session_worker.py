"""The engine's side of one opened model: a thread that reads requests from the model's data socket and runs them.

Imports NumPy: for the engine only. Requests run one after the other, in order; answers that are ready within
``HOLD_NS`` of each other go out in one write. Before each run its number is written to the answer memory, so that the
server knows which request was running if the process dies.
"""

from __future__ import annotations

import mmap
import socket
from collections.abc import Callable, Mapping, Sequence
from time import monotonic_ns
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.errors import BackendError
from agent.serving import engine_wire
from agent.serving.arena import Arena, Slot
from agent.serving.engine_wire import Answer, Failure, Free, Part, Run, RunTogether
from agent.serving.framing import BlockingFrames, frame
from edge_contracts.errors import MalformedTensor
from edge_contracts.inference_wire import Tensor
from edge_contracts.parity import to_array, to_tensor
from edge_contracts.tensor_signature import BYTES, NUMPY_NAME, Signature, TensorSpec

HOLD_NS = 200_000
Array = NDArray[Any]


class Session(Protocol):
    """What the worker needs of agent.inference.session.ModelSession."""

    def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference in the signature's terms. Raises BackendError."""

    def close(self) -> None:
        """Free the model."""


class SessionWorker:
    """Runs requests of one model until its data socket closes. ``requests``: the server's memory, read only."""

    def __init__(
        self, session: Session, signature: Signature, data: socket.socket, requests: mmap.mmap, answers: mmap.mmap
    ) -> None:
        self._session = session
        self._signature = signature
        self._data = data
        self._requests = memoryview(requests)
        self._answers = answers
        self._arena = Arena(answers, begin=engine_wire.ANSWER_BEGIN)
        self._slots: dict[int, Slot] = {}
        self._readers = [_reader(spec) for spec in signature.inputs]
        self._decoder = msgspec.msgpack.Decoder(engine_wire.ToEngineData)
        self._encoder = msgspec.msgpack.Encoder()
        self._unsent: list[bytes] = []
        self._unsent_since_ns = 0

    def serve(self) -> None:
        """Until the server closes the data socket; then the model is freed."""
        frames = BlockingFrames(self._data)
        try:
            while (found := self._next(frames)) is not None:
                message = self._decoder.decode(found)
                if isinstance(message, Run):
                    self._run(message)
                elif isinstance(message, RunTogether):
                    self._run_together(message.runs)
                else:
                    self._free(message)
        except OSError:
            pass  # the server is gone; the control socket ends this process
        finally:
            self._data.close()
            self._session.close()

    def _next(self, frames: BlockingFrames) -> memoryview | None:
        found = frames.buffered()
        if self._unsent and (found is None or monotonic_ns() - self._unsent_since_ns > HOLD_NS):
            self._data.sendall(b"".join(self._unsent))
            self._unsent.clear()
        return frames.next() if found is None else found

    def _run(self, run: Run) -> None:
        started = monotonic_ns()
        engine_wire.RUNNING.pack_into(self._answers, 0, run.number, started)
        try:
            inputs = {spec.name: read(self, part) for spec, read, part in self._zipped(run.inputs)}
            input_done = monotonic_ns()
            outputs = self._session.infer(inputs)
            infer_done = monotonic_ns()
            parts = [self._part(index, outputs, slice(None)) for index in run.outputs]
        except (BackendError, MalformedTensor, KeyError) as error:
            self._reply(Failure(run.number, _one_line(error)))
        except Exception as error:  # noqa: BLE001 - outputs of a foreign plug-in may be anything; others are served
            self._reply(Failure(run.number, _one_line(error)))
        else:
            done = monotonic_ns()
            self._reply(Answer(run.number, parts, started, input_done - started, infer_done - input_done,
                               done - infer_done))  # fmt: skip
        engine_wire.RUNNING.pack_into(self._answers, 0, 0, 0)

    def _run_together(self, runs: Sequence[Run]) -> None:
        """Concatenate along the first axis, run once, cut the outputs. A batch that fails is run one by one."""
        started = monotonic_ns()
        engine_wire.RUNNING.pack_into(self._answers, 0, runs[0].number, started)
        try:
            columns = [[read(self, part) for _, read, part in self._zipped(run.inputs)] for run in runs]
            inputs = {
                spec.name: np.concatenate([column[position] for column in columns])
                for position, spec in enumerate(self._signature.inputs)
            }
            input_done = monotonic_ns()
            outputs = self._session.infer(inputs)
            infer_done = monotonic_ns()
            sizes = [run.inputs[0].shape[0] for run in runs]
            if any(array.shape[0] != sum(sizes) for array in outputs.values()):
                raise BackendError("batch", "an output does not carry the batch")
        except Exception:  # noqa: BLE001 - as in _run; whichever request the runtime did not like is answered alone
            for run in runs:
                self._run(run)
            return
        at = 0
        for run, size in zip(runs, sizes, strict=True):
            begun = monotonic_ns()
            parts = [self._part(index, outputs, slice(at, at + size)) for index in run.outputs]
            at += size
            self._reply(Answer(run.number, parts, started, input_done - started, infer_done - input_done,
                               monotonic_ns() - begun, len(runs)))  # fmt: skip
        engine_wire.RUNNING.pack_into(self._answers, 0, 0, 0)

    def _zipped(self, parts: Sequence[Part]) -> Any:
        return zip(self._signature.inputs, self._readers, parts, strict=True)

    def _part(self, index: int, outputs: Mapping[str, Array], rows: slice) -> Part:
        spec = self._signature.outputs[index]
        array = _as_specified(spec, outputs[spec.name])
        if rows != slice(None):
            array = array[rows]
        if spec.dtype == BYTES:
            data = memoryview(to_tensor(spec.name, array).data)
        else:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        slot = self._arena.allocate(len(data)) if len(data) >= engine_wire.SHARED_BYTES else None
        if slot is None:
            return Part(index, array.shape, data)
        self._arena.view(slot)[:] = data
        self._slots[slot.offset] = slot
        return Part(index, array.shape, None, slot.offset, slot.size)

    def _free(self, message: Free) -> None:
        for offset in message.offsets:
            self._arena.free(self._slots.pop(offset))

    def _reply(self, reply: Answer | Failure) -> None:
        if not self._unsent:
            self._unsent_since_ns = monotonic_ns()
        self._unsent.append(frame(self._encoder.encode(reply)))

    def bytes_of(self, part: Part) -> memoryview:
        """The raw bytes of an input, wherever they lie."""
        return self._requests[part.offset : part.offset + part.size] if part.inline is None else part.inline


Reader = Callable[[SessionWorker, Part], Array]


def _reader(spec: TensorSpec) -> Reader:
    """How an input of that dtype becomes an array: a view of the server's memory where it is aligned, else a copy."""
    if spec.dtype == BYTES:
        return lambda worker, part: to_array(Tensor(spec.name, BYTES, part.shape, worker.bytes_of(part)))
    dtype = np.dtype("uint16" if spec.dtype == "BF16" else NUMPY_NAME[spec.dtype]).newbyteorder("<")

    def read(worker: SessionWorker, part: Part) -> Array:
        array: Array = np.frombuffer(worker.bytes_of(part), dtype=dtype).reshape(part.shape)
        return array if array.flags.aligned else array.copy()

    return read


def _as_specified(spec: TensorSpec, array: Array) -> Array:
    if spec.dtype == BYTES:
        return array
    dtype = np.dtype("uint16" if spec.dtype == "BF16" else NUMPY_NAME[spec.dtype]).newbyteorder("<")
    return array if array.dtype == dtype else array.astype(dtype)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:1000] or type(error).__name__
