from __future__ import annotations

from collections.abc import Callable, Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given

from edge_contracts import messages, topics
from edge_contracts.errors import ContractError
from edge_contracts.messages import Event, Status
from fleet.broker.link import Incoming
from fleet.errors import RecordRefused, StoreUnavailable
from fleet.ingress.decoding import decode
from fleet.ingress.intake import Intake
from fleet.services.inventory import Effects, Received
from tests.fleet.fleet_in_memory import FleetInMemory

STATUS = topics.up("s", "d", "status")


class Sink:
    """Where the intake stores; fails as often as told."""

    def __init__(self) -> None:
        self.stored: list[Received] = []
        self.batches: list[int] = []
        self.acks = 0
        self.acks_before_commit = 0
        self.failures: list[Exception] = []
        self.poison: Callable[[Received], bool] = lambda item: False

    def ingest(self, batch: Sequence[Received]) -> Effects:
        if self.failures:
            raise self.failures.pop(0)
        if any(self.poison(item) for item in batch):
            raise RecordRefused("int too large")
        self.acks_before_commit = max(self.acks_before_commit, self.acks - len(self.stored))
        self.stored += batch
        self.batches.append(len(batch))
        return Effects()

    def ack(self) -> None:
        self.acks += 1

    def incoming(self, payload: bytes, topic: str = STATUS) -> Incoming:
        return Incoming(topic, payload, False, self.ack)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def intake(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> Intake:
    monkeypatch.setattr("fleet.ingress.intake.RETRY_S", 0.001)
    return Intake(sink.ingest, lambda effects: None, lambda: 7)


GOOD = messages.encode(Status(online=True, session=1))


def test_messages_are_gathered_committed_and_then_acknowledged(intake: Intake, sink: Sink) -> None:
    for _ in range(700):
        intake.put(sink.incoming(GOOD))
    assert intake.take_batch(0) == 500
    assert (sink.batches, sink.acks) == ([500], 500)
    assert intake.take_batch(0) == 200
    assert intake.take_batch(0) == 0
    assert sink.acks_before_commit <= 0


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        (STATUS, b"\xff\xfe\x00garbage"), (STATUS, b""), (STATUS, b"{}"), (STATUS, b"[" * 100_000),
        (STATUS, b'{"online":true,"session":"1"}'), (STATUS, b" " * 2_000_000), (STATUS, b"null"),
        ("mindedge/v1/s/d/up/unheard-of", GOOD), ("nonsense", GOOD), ("mindedge/v1/s/d.e/up/status", GOOD),
        (topics.desired("s", "d"), b'{"version":1,"models":{}}'),
    ],
)  # fmt: skip
def test_garbage_is_counted_dropped_and_acknowledged_and_the_next_message_works(
    intake: Intake, sink: Sink, topic: str, payload: bytes
) -> None:
    intake.put(sink.incoming(payload, topic))
    intake.put(sink.incoming(GOOD))
    intake.take_batch(0)
    assert intake.counters.malformed == 1
    assert (len(sink.stored), sink.acks) == (1, 2)


def test_a_store_that_is_busy_is_waited_for_and_said_once(
    intake: Intake, sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.failures = [StoreUnavailable("database is locked"), StoreUnavailable("database is locked")]
    intake.put(sink.incoming(GOOD))
    intake.take_batch(0)
    assert (len(sink.stored), sink.acks) == (1, 1)
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "devices' messages wait with the broker", "devices' messages are stored again"
    ]  # fmt: skip


def test_a_batch_that_met_an_unforeseen_fault_is_tried_again_and_nothing_of_it_is_lost(
    intake: Intake, sink: Sink
) -> None:
    sink.failures = [AssertionError("a bug of ours"), AssertionError("a bug of ours")]
    for payload in (GOOD, b"garbage", GOOD):
        intake.put(sink.incoming(payload))
    assert intake.thread.turn() > 0
    assert intake.thread.turn() > 0
    assert (sink.stored, sink.acks, intake.failure is None) == ([], 1, False)
    assert intake.thread.turn() == 0
    assert (len(sink.stored), sink.acks, intake.failure) == (2, 3, None)
    assert intake.counters.malformed == 1


def test_nothing_is_acknowledged_that_was_not_stored(intake: Intake, sink: Sink) -> None:
    sink.failures = [StoreUnavailable("disk full")] * 1000
    intake.put(sink.incoming(GOOD))
    intake.thread.stopping.set()
    intake.take_batch(0)
    assert (sink.stored, sink.acks) == ([], 0)


def test_a_message_that_no_store_takes_is_found_dropped_and_the_rest_is_kept(intake: Intake, sink: Sink) -> None:
    sink.poison = lambda item: item.message == Status(online=True, session=13)
    for session in range(20):
        intake.put(sink.incoming(messages.encode(Status(online=True, session=session))))
    intake.take_batch(0)
    assert len(sink.stored) == 19
    assert intake.counters.poison == 1
    assert sink.acks == 20


def test_numbers_and_texts_that_databases_dislike_do_not_stop_the_intake() -> None:
    fleet = FleetInMemory()
    cam = fleet.device("cam")
    topic = topics.up("default", "cam", "event")
    for at_ms in (2**63, -(2**70), 10**30):
        event = b'{"id":"e%d","at_ms":%d,"kind":"k","text":"a\\u0000b"}' % (at_ms % 7, at_ms)
        cam.connection.publish(topic, event)  # type: ignore[attr-defined]
    cam.connection.publish(topic, messages.encode(Event(id="fine", at_ms=1, kind="k", text="t")))  # type: ignore[attr-defined]
    fleet.settle()
    assert "fine" in [event.id for event in fleet.reading.device("cam")[1]]


@given(st.text(max_size=60), st.binary(max_size=200))
def test_decoding_any_topic_and_any_bytes_gives_a_message_or_a_contract_error(topic: str, payload: bytes) -> None:
    for name in (topic, STATUS, topics.up("s", "d", "reported"), topics.up("s", "d", "telemetry")):
        try:
            decode(name, payload, retained=False, at_ms=0)
        except ContractError:
            continue
