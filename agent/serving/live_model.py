"""A model that serves: its queue, what is in flight in the engine, and what becomes of both when the engine dies.

A request that was in the engine when it died goes back to the head of the queue; the one that was running is blamed,
and a request that is blamed twice gets 500. A replaced model answers what it has and is then freed.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Protocol

from agent.errors import RequestRefused
from agent.serving.arena import Arena, Slot
from agent.serving.batching import BatchRule, gather
from agent.serving.body import Body
from agent.serving.control import Loaded, ModelState, ServedModel, ServingOptions
from agent.serving.engine_wire import Answer, Failure, Run, RunTogether
from agent.serving.exchange import BINARY, JSON, Exchange
from agent.serving.exchange import Answer as HttpAnswer
from agent.serving.protocol import InferenceRequest, RequestParser
from agent.serving.responses import format_answer, format_error
from agent.serving.statistics import ModelStatistics
from edge_contracts.inference_wire import Tensor
from edge_contracts.tensor_signature import Signature

WINDOW = 8
"""Requests given to the engine ahead of the one that runs, so that it never waits for the server."""

MAX_DEATHS = 2


CallLater = Callable[[float, Callable[[], None]], object]


class Channel(Protocol):
    """The way to the engine's worker for one model."""

    def send(self, message: Run | RunTogether) -> None:
        """Queue for sending; never blocks."""

    def running(self) -> int:
        """The number of the request that runs, or ran when the engine died; 0: none."""

    def close(self) -> None:
        """Let the engine free the model."""


@dataclass(eq=False, slots=True)
class Pending:
    """A parsed request on its way. ``shared``: slots of request memory beside the body's own."""

    exchange: Exchange
    request: InferenceRequest
    run: Run
    shared: list[Slot]
    parsed_ns: int
    deadline_ns: int
    deaths: int = 0
    runs_alone: bool = False
    kept_body: Body | None = None
    is_answered: bool = field(default=False)

    def rows(self) -> int:
        """Size of the first dimension of the first input."""
        inputs = self.run.inputs
        return inputs[0].shape[0] if inputs and inputs[0].shape else 1


class LiveModel:
    """``session``: the number under which an engine holds it. All methods run in the server's loop."""

    def __init__(
        self, served: ServedModel, signature: Signature, session: int, options: ServingOptions, arena: Arena,
        statistics: ModelStatistics, batch_rule: BatchRule | None,
    ) -> None:  # fmt: skip
        self.served = served
        self.signature = signature
        self.parser = RequestParser(signature, max_json_bytes=options.max_json_bytes)
        self.session = session
        self.statistics = statistics
        self.loaded: Loaded | None = None
        self.failure: str | None = None
        self.load_deaths = 0
        self._options = options
        self._arena = arena
        self._batch_rule = batch_rule
        self._channel: Channel | None = None
        self._queue: deque[Pending] = deque()
        self._in_flight: dict[int, Pending] = {}
        self._numbers = itertools.count(1)
        self._last_progress_ns = 0
        self._when_idle: Callable[[], None] | None = None
        self._call_later: CallLater | None = None
        self._is_waking = False

    @property
    def is_ready(self) -> bool:
        """Whether an engine holds it warm."""
        return self._channel is not None

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is in flight."""
        return not self._queue and not self._in_flight

    def state(self) -> ModelState:
        """For status."""
        served, statistics = self.served, self.statistics
        return ModelState(
            name=served.name, version=served.version, digest=served.digest, variant=served.variant,
            ready=self.is_ready, provider=self.loaded.provider if self.loaded else None,
            warm_ms=self.loaded.warm_ms if self.loaded else 0.0, reason=self.failure, queued=len(self._queue),
            in_flight=len(self._in_flight), requests=statistics.successes + statistics.failures,
            errors=statistics.failures, crashes=statistics.crashes,
        )  # fmt: skip

    # requests ----------------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """A number for a Run of this model."""
        return next(self._numbers)

    def refuse_when_full(self) -> None:
        """Raises RequestRefused (503): it cannot be loaded, or too many requests wait already."""
        if self.failure is not None:
            raise RequestRefused(503, f"model {self.served.name!r} is not ready: {self.failure}")
        if len(self._queue) >= self._options.max_queue:
            raise RequestRefused(
                503, f"model {self.served.name!r}: {len(self._queue)} requests wait already: try again"
            )

    def submit(self, pending: Pending) -> None:
        """Queue a request; its exchange is answered later. Raises RequestRefused (503)."""
        self.refuse_when_full()
        self._queue.append(pending)
        self.pump()

    def pump(self) -> None:
        """Give the engine as much as it may hold."""
        channel = self._channel
        if channel is None:
            return
        if self._batch_rule is not None:
            self._pump_batches(channel, self._batch_rule)
            return
        while self._queue and len(self._in_flight) < WINDOW:
            pending = self._queue.popleft()
            if pending.is_answered or pending.exchange.is_gone:
                self._release(pending)
                continue
            self._dispatched([pending])
            channel.send(pending.run)
        self._tell_if_idle()

    def _pump_batches(self, channel: Channel, rule: BatchRule) -> None:
        while self._queue and len(self._in_flight) <= rule.max_rows:
            while self._queue and (self._queue[0].is_answered or self._queue[0].exchange.is_gone):
                self._release(self._queue.popleft())
            batch, wait_s = gather(self._queue, rule, monotonic_ns(), engine_is_idle=not self._in_flight)
            if not batch:
                if wait_s is not None and self._call_later is not None and not self._is_waking:
                    self._is_waking = True
                    self._call_later(wait_s, self._wake)
                break
            for _ in batch:
                self._queue.popleft()
            self._dispatched(batch)
            channel.send(batch[0].run if len(batch) == 1 else RunTogether([pending.run for pending in batch]))
        self._tell_if_idle()

    def _wake(self) -> None:
        self._is_waking = False
        self.pump()

    def _dispatched(self, batch: Sequence[Pending]) -> None:
        if not self._in_flight:
            self._last_progress_ns = monotonic_ns()
        for pending in batch:
            self._in_flight[pending.run.number] = pending

    # the engine --------------------------------------------------------------------------------------------------

    def connected(self, channel: Channel, loaded: Loaded, call_later: CallLater) -> None:
        """An engine holds the model warm. ``call_later``: the loop's."""
        self._channel, self.loaded, self.failure, self._call_later = channel, loaded, None, call_later
        self.load_deaths = 0
        self.pump()

    def engine_died(self, how: str) -> list[Pending]:
        """Put back what was in flight. Returns the requests that are given up, having been blamed twice."""
        channel, self._channel = self._channel, None
        running = channel.running() if channel is not None else 0
        given_up: list[Pending] = []
        back: list[Pending] = []
        for pending in self._in_flight.values():
            if pending.run.number == running:
                pending.deaths += 1
                self.statistics.crashes += 1
            if pending.is_answered or pending.exchange.is_gone:
                self._release(pending)
            elif pending.deaths >= MAX_DEATHS:
                given_up.append(pending)
                self._fail(pending, 500, f"this request ended the engine {pending.deaths} times ({how}); "
                           "it is not tried again")  # fmt: skip
            else:
                pending.runs_alone = True  # so that the next death is blamed on the right one
                back.append(pending)
        self._in_flight.clear()
        self._queue.extendleft(reversed(back))
        self._tell_if_idle()
        return given_up

    def was_running(self) -> bool:
        """Whether a request of this model runs in the engine, or ran when it died."""
        return self._channel is not None and self._channel.running() in self._in_flight

    def cannot_load(self, reason: str) -> None:
        """No engine can hold it: what waits gets 503, and so does what comes."""
        self.failure = reason
        while self._queue:
            self._fail(self._queue.popleft(), 503, f"model {self.served.name!r} is not ready: {reason}")
        self._tell_if_idle()

    def replied(self, reply: Answer | Failure, outputs: Sequence[Tensor]) -> None:
        """The engine's reply to one request; ``outputs`` are the server's own copies."""
        self._last_progress_ns = monotonic_ns()
        pending = self._in_flight.pop(reply.number, None)
        if pending is not None:
            if pending.is_answered:
                self._release(pending)
            elif isinstance(reply, Answer):
                self._succeed(pending, reply, outputs)
            else:
                # inputs that fit the signature leave only open dimensions and values to be wrong
                status = (
                    400 if any(isinstance(dim, str) for spec in self.signature.inputs for dim in spec.shape) else 500
                )
                self._fail(pending, status, f"model {self.served.name!r} refused the request: {reply.reason}")
        self.pump()

    # time --------------------------------------------------------------------------------------------------------

    def check_time(self, now_ns: int) -> bool:
        """Answer what has waited too long. Returns True when the engine hangs on a request."""
        for pending in [*self._queue, *self._in_flight.values()]:
            if now_ns > pending.deadline_ns and not pending.is_answered:
                seconds = f"{self._options.request_timeout_s:g}"
                self._fail(pending, 503, f"no answer within {seconds} s", keep=pending.run.number in self._in_flight)
        while self._queue and self._queue[0].is_answered:
            self._release(self._queue.popleft())
        stalled_ns = now_ns - self._last_progress_ns
        return bool(self._in_flight) and stalled_ns > self._options.hang_timeout_s * 1e9

    # the end -----------------------------------------------------------------------------------------------------

    def retire(self, when_idle: Callable[[], None]) -> None:
        """Take no new requests; ``when_idle`` is called, perhaps at once, when the last one is answered."""
        self._when_idle = when_idle
        self._tell_if_idle()

    def disconnect(self) -> None:
        """Let the engine free the model."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _tell_if_idle(self) -> None:
        if self._when_idle is not None and self.is_idle:
            when_idle, self._when_idle = self._when_idle, None
            when_idle()

    # answers -----------------------------------------------------------------------------------------------------

    def _succeed(self, pending: Pending, reply: Answer, outputs: Sequence[Tensor]) -> None:
        received_ns = monotonic_ns()
        try:
            answer = format_answer(self.served.name, self.served.version, pending.request, outputs)
        except RequestRefused as error:
            self._fail(pending, error.status, error.reason)
            return
        length = answer.header_length
        headers = b"" if length is None else b"Inference-Header-Content-Length: %d\r\n" % length
        parts = [answer.json_part, *answer.binary_parts]
        self._finish(pending, HttpAnswer(200, JSON if length is None else BINARY, parts, headers))
        done_ns = monotonic_ns()
        arrived_ns = pending.exchange.arrived_ns
        self.statistics.succeeded(
            (
                max(0, reply.started_ns - pending.parsed_ns) / 1e3,
                (pending.parsed_ns - arrived_ns + reply.input_ns) / 1e3,
                reply.infer_ns / 1e3,
                (reply.output_ns + done_ns - received_ns) / 1e3,
                (done_ns - arrived_ns) / 1e3,
            ),
            pending.rows(),
            reply.batch,
        )

    def _fail(self, pending: Pending, status: int, reason: str, *, keep: bool = False) -> None:
        """``keep``: the engine may still read the request's memory."""
        self.statistics.failed((monotonic_ns() - pending.exchange.arrived_ns) / 1e3)
        headers = b"Retry-After: 1\r\n" if status == 503 else b""
        if keep:
            pending.kept_body, pending.exchange.body = pending.exchange.body, None
            pending.is_answered = True
            pending.exchange.answer(HttpAnswer(status, JSON, [format_error(reason)], headers))
        else:
            self._finish(pending, HttpAnswer(status, JSON, [format_error(reason)], headers))

    def _finish(self, pending: Pending, answer: HttpAnswer) -> None:
        pending.is_answered = True
        self._release(pending)
        pending.exchange.answer(answer)

    def _release(self, pending: Pending) -> None:
        for slot in pending.shared:
            self._arena.free(slot)
        pending.shared = []
        pending.exchange.release()
        if pending.kept_body is not None:
            pending.kept_body.release()
            pending.kept_body = None
