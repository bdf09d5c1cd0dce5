"""The queue of one model with an engine that does as the test says."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from agent.errors import RequestRefused
from agent.serving.arena import Arena, create_memory, map_memory
from agent.serving.batching import BatchRule
from agent.serving.control import Loaded, ServedModel, ServingOptions
from agent.serving.engine_wire import Answer, Failure, Part, Run, RunTogether
from agent.serving.exchange import Answer as HttpAnswer
from agent.serving.exchange import Exchange
from agent.serving.live_model import WINDOW, LiveModel, Pending
from agent.serving.protocol import InferenceRequest, WantedOutput
from agent.serving.statistics import ModelStatistics
from edge_contracts.inference_wire import Tensor
from tests.agent.serving.signatures import signature_of

OUTPUT = Tensor("y", "FP32", (1, 8), struct.pack("<8f", *range(8)))


class Engine:
    """Keeps what it is sent; ``now_running`` is what the answer memory would say."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.now_running = 0
        self.is_closed = False

    def send(self, message: Run | RunTogether) -> None:
        runs = message.runs if isinstance(message, RunTogether) else [message]
        self.sent.append([run.number for run in runs])

    def running(self) -> int:
        return self.now_running

    def close(self) -> None:
        self.is_closed = True


class Client:
    """Keeps the answers it gets."""

    def __init__(self) -> None:
        self.answers: dict[Exchange, HttpAnswer] = {}

    def answer(self, exchange: Exchange, answer: HttpAnswer) -> None:
        assert exchange not in self.answers, "answered twice"
        self.answers[exchange] = answer


class Bench:
    """A live model and what stands around it."""

    def __init__(self, rule: BatchRule | None = None, **options: Any) -> None:
        self.options = ServingOptions(**options)
        self.arena = Arena(map_memory(create_memory("t", 1 << 20), 1 << 20, writable=True))
        self.statistics = ModelStatistics("m", "1.0.0", "d", lambda: 0)
        model = ServedModel(name="m", version="1.0.0", digest="d", folder="f", variant="v")
        self.live = LiveModel(model, signature_of(), 1, self.options, self.arena, self.statistics, rule)
        self.client = Client()
        self.engine = Engine()
        self.timers: list[tuple[float, Any]] = []

    def connect(self) -> Engine:
        self.engine = Engine()
        loaded = Loaded(provider="p", warm_ms=1.0)
        self.live.connected(self.engine, loaded, lambda delay_s, call: self.timers.append((delay_s, call)))
        return self.engine

    def ask(self, *, deadline_ns: int = 1 << 62) -> Pending:
        exchange = Exchange(self.client, b"POST", b"/", {})
        request = InferenceRequest("", [], [], [WantedOutput("y", False)], False)
        slot = self.arena.allocate(100)
        assert slot is not None
        run = Run(self.live.next_number(), [Part(0, (1, 8), None, slot.offset, 100)], [0])
        pending = Pending(exchange, request, run, [slot], 0, deadline_ns)
        self.live.submit(pending)
        return pending

    def reply(self, pending: Pending) -> None:
        self.live.replied(Answer(pending.run.number, [], 0, 0, 0, 0), [OUTPUT])

    def status(self, pending: Pending) -> int | None:
        answer = self.client.answers.get(pending.exchange)
        return None if answer is None else answer.status


def test_requests_wait_until_an_engine_holds_the_model_and_are_then_sent_in_order() -> None:
    bench = Bench()
    pending = [bench.ask() for _ in range(3)]
    assert not bench.live.is_ready
    engine = bench.connect()
    assert engine.sent == [[one.run.number] for one in pending]
    for one in pending:
        bench.reply(one)
    assert [bench.status(one) for one in pending] == [200] * 3
    assert json.loads(bytes(bench.client.answers[pending[0].exchange].parts[0]))["outputs"][0]["data"] == list(range(8))
    assert bench.arena.used_bytes == 0


def test_the_engine_is_given_no_more_than_a_window() -> None:
    bench = Bench()
    engine = bench.connect()
    pending = [bench.ask() for _ in range(WINDOW + 3)]
    assert len(engine.sent) == WINDOW
    bench.reply(pending[0])
    assert len(engine.sent) == WINDOW + 1


def test_what_was_in_flight_when_the_engine_died_is_sent_again_before_what_waited() -> None:
    bench = Bench()
    bench.connect().now_running = 1
    pending = [bench.ask() for _ in range(WINDOW + 2)]
    assert bench.live.engine_died("died") == []
    engine = bench.connect()
    assert engine.sent == [[one.run.number] for one in pending[:WINDOW]]
    for one in pending:
        bench.reply(one)
    assert {bench.status(one) for one in pending} == {200}
    assert bench.arena.used_bytes == 0


def test_only_the_request_that_ran_is_blamed_and_twice_is_enough() -> None:
    bench = Bench()
    first, second = bench.ask(), bench.ask()
    for _ in range(2):
        bench.connect().now_running = second.run.number
        given_up = bench.live.engine_died("died of SIGILL")
    assert given_up == [second]
    assert (bench.status(first), bench.status(second)) == (None, 500)
    assert bench.statistics.crashes == 2
    bench.connect()
    bench.reply(first)
    assert bench.status(first) == 200
    assert bench.arena.used_bytes == 0


def test_requests_that_ran_together_when_the_engine_died_are_sent_alone() -> None:
    bench = Bench(BatchRule(4, 0))
    pending = [bench.ask() for _ in range(4)]
    engine = bench.connect()
    assert engine.sent == [[one.run.number for one in pending]]
    engine.now_running = pending[0].run.number
    bench.live.engine_died("died")
    engine = bench.connect()
    assert engine.sent[0] == [pending[0].run.number]
    assert all(len(batch) == 1 for batch in engine.sent)


def test_a_partial_batch_is_sent_when_its_time_has_come() -> None:
    bench = Bench(BatchRule(4, 10**18))
    engine = bench.connect()
    bench.ask()
    bench.ask()
    assert engine.sent == []
    assert len(bench.timers) == 1
    bench.ask()
    bench.ask()
    assert len(engine.sent) == 1


def test_a_client_that_has_left_is_neither_sent_nor_answered() -> None:
    bench = Bench()
    pending = bench.ask()
    pending.exchange.is_gone = True
    assert bench.connect().sent == []
    assert bench.live.is_idle
    assert bench.arena.used_bytes == 0


def test_a_late_request_is_answered_503_and_its_memory_is_kept_until_the_engine_is_done() -> None:
    bench = Bench(request_timeout_s=2.0, hang_timeout_s=1e6)
    bench.connect()
    pending = bench.ask(deadline_ns=5)
    assert not bench.live.check_time(10)
    assert bench.status(pending) == 503
    assert b"Retry-After" in bench.client.answers[pending.exchange].headers
    assert bench.arena.used_bytes > 0
    bench.reply(pending)
    assert bench.arena.used_bytes == 0
    assert bench.live.is_idle


def test_a_hang_is_told_from_waiting() -> None:
    bench = Bench(hang_timeout_s=1e-9)
    bench.ask()
    assert not bench.live.check_time(1 << 61)
    bench.connect()
    assert bench.live.check_time(1 << 61)


def test_a_full_queue_and_a_model_that_cannot_be_loaded_refuse() -> None:
    bench = Bench(max_queue=2)
    waiting = [bench.ask(), bench.ask()]
    with pytest.raises(RequestRefused) as caught:
        bench.ask()
    assert caught.value.status == 503
    bench.live.cannot_load("it is broken")
    assert [bench.status(one) for one in waiting] == [503, 503]
    with pytest.raises(RequestRefused, match="it is broken"):
        bench.live.refuse_when_full()


def test_a_failure_of_the_runtime_is_the_clients_400_where_shapes_are_open() -> None:
    bench = Bench()
    bench.connect()
    pending = bench.ask()
    bench.live.replied(Failure(pending.run.number, "H must be 48"), [])
    assert bench.status(pending) == 400
    assert b"H must be 48" in bytes(bench.client.answers[pending.exchange].parts[0])
    assert bench.statistics.failures == 1


def test_a_retired_model_is_idle_only_after_its_last_answer() -> None:
    bench = Bench()
    bench.connect()
    pending = bench.ask()
    told: list[bool] = []
    bench.live.retire(lambda: told.append(True))
    assert told == []
    bench.reply(pending)
    assert told == [True]


def test_a_reply_to_an_unknown_request_is_ignored() -> None:
    bench = Bench()
    bench.connect()
    pending = bench.ask()
    bench.live.replied(Answer(99, [], 0, 0, 0, 0), [OUTPUT])
    assert bench.status(pending) is None
