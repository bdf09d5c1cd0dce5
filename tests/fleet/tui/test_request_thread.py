"""Requests off the screen's thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fleet.errors import ServerUnreachable
from fleet.tui.link import PATIENCE_S, SLOWEST_S, Link
from fleet.tui.request_thread import RequestThread
from fleet.tui.view_models.connection import connection_line
from fleet.tui.view_models.spans import plain_text
from tests.simulators.fleet_client import FleetSimulator, device


def test_answers_come_from_one_other_thread() -> None:
    async def play() -> None:
        requests = RequestThread(FleetSimulator(devices=[device("edge-1")]))
        threads = {await requests.call(lambda client: threading.get_ident()) for _ in range(5)}
        assert len(threads) == 1
        assert threading.get_ident() not in threads
        assert [each.id for each in await requests.call(lambda client: client.devices())] == ["edge-1"]

    asyncio.run(play())


def test_an_error_reaches_the_one_who_asked_and_the_next_question_is_answered() -> None:
    async def play() -> None:
        fleet = FleetSimulator()
        requests = RequestThread(fleet)
        fleet.away = "timed out"
        with pytest.raises(ServerUnreachable):
            await requests.call(lambda client: client.devices())
        fleet.away = None
        assert await requests.call(lambda client: client.devices()) == []

    asyncio.run(play())


def test_one_who_no_longer_waits_disturbs_nobody() -> None:
    async def play() -> None:
        requests = RequestThread(FleetSimulator())
        go_on = threading.Event()
        slow = asyncio.ensure_future(requests.call(lambda client: go_on.wait(10)))
        await asyncio.sleep(0)
        slow.cancel()
        go_on.set()
        assert await requests.call(lambda client: client.health().status) == "ok"

    asyncio.run(play())


def test_a_question_that_waits_too_long_counts_as_no_answer() -> None:
    link = Link().asking(10.0)
    assert link.trouble_at(10.0 + PATIENCE_S) is None
    assert link.trouble_at(20.0) == "server does not answer: silent for 10 s"
    assert link.answered().trouble_at(20.0) is None


def test_questions_become_rarer_while_nobody_answers_and_frequent_again_after() -> None:
    link = Link()
    rests = []
    for _ in range(8):
        link = link.failed("refused")
        rests.append(link.rest_s(1.0))
    assert rests[0] == 1.0
    assert rests == sorted(rests)
    assert rests[-1] == SLOWEST_S
    assert link.answered().rest_s(1.0) == 1.0


def test_the_line_tells_the_age_of_what_is_shown_if_anything_is() -> None:
    line = connection_line("server does not answer: connection refused", 40.0, 100.0)
    assert line is not None
    assert plain_text(line) == "server does not answer: connection refused, trying again; data is 1 min old"
    line = connection_line("server does not answer: connection refused", None, 100.0)
    assert line is not None
    assert "data" not in plain_text(line)
    assert connection_line(None, 40.0, 100.0) is None
