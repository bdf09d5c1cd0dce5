from __future__ import annotations

import logging

import pytest

from fleet.broker.backoff import Backoff
from fleet.broker.memory import MemoryBroker
from fleet.composition import FleetServer
from fleet.config import FleetConfig
from fleet.errors import StoreUnavailable
from fleet.supervised_thread import SupervisedThread


class Step:
    """Raises what is next in ``failures``; counts the steps that went well."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.done = 0

    def __call__(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.done += 1


def supervised(step: Step) -> SupervisedThread:
    return SupervisedThread("test", "rollouts", step, backoff=Backoff(first_s=0.5, cap_s=2.0, stable_s=0.0))


def test_a_fault_nobody_foresaw_is_logged_once_with_its_trace_and_tried_again_at_bounded_distance(
    caplog: pytest.LogCaptureFixture,
) -> None:
    thread = supervised(Step(*(ZeroDivisionError("a secret") for _ in range(4))))
    assert [thread.turn() for _ in range(4)] == [0.5, 1.0, 2.0, 2.0]
    assert thread.failure == "rollouts wait: ZeroDivisionError, the server's log says more"
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None) == (logging.ERROR, True)


def test_recovery_is_told_once_and_the_next_failure_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    step = Step(ZeroDivisionError())
    thread = supervised(step)
    assert [thread.turn() for _ in range(3)] == [0.5, 0.0, 0.0]
    assert (thread.failure, step.done) == (None, 2)
    assert [record.message for record in caplog.records][1:] == ["rollouts go on: recovered"]
    step.failures.append(ZeroDivisionError())
    assert thread.turn() == 0.5
    assert len(caplog.records) == 3


def test_a_failure_of_the_database_is_one_line_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    thread = supervised(Step(StoreUnavailable("database is locked")))
    thread.turn()
    assert thread.failure is not None
    assert "database is locked" in thread.failure
    assert [(record.levelno, record.exc_info) for record in caplog.records] == [(logging.WARNING, None)]


def test_the_thread_goes_on_after_a_failure_and_ends_when_told() -> None:
    step = Step(ZeroDivisionError())
    thread = SupervisedThread("test", "rollouts", step, backoff=Backoff(first_s=0.0, cap_s=0.0, stable_s=0.0))

    def until_done() -> None:
        step()
        thread.stopping.set()

    thread._step = until_done
    thread.start()
    thread._thread.join(30.0)
    assert step.done == 1
    thread.stop()


@pytest.mark.parametrize("part", ["_intake", "_accounts", "_ticker", "_watch", "_housekeeping"])
def test_a_part_that_keeps_failing_degrades_the_health_with_the_reason(
    part: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FleetServer(FleetConfig(data_dir=tmp_path), MemoryBroker())  # type: ignore[arg-type]
    monkeypatch.setattr(FleetServer, "connected", True)
    assert server._health().status == "ok"
    thread = getattr(server, part).thread
    thread._step = Step(ZeroDivisionError())
    thread.turn()
    health = server._health()
    assert (health.status, health.reasons) == ("degraded", [thread.failure])
    thread.turn()
    assert server._health().status == "ok"
