"""Pictures for the documentation."""

from __future__ import annotations

import asyncio
from datetime import timezone
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fleet.tui.capture import NotCaptured, capture, main
from fleet.tui.desk import Desk
from fleet.tui.glyphs import UNICODE
from fleet.tui.request_thread import RequestThread
from tests.simulators.fleet_client import NOW_MS, FleetSimulator, device, failed_rollout

DESK = Desk("http://fleet.example", UNICODE, lambda: NOW_MS, timezone.utc)


def test_a_picture_is_the_same_every_time_and_needs_nothing_from_elsewhere() -> None:
    async def take() -> str:
        requests = RequestThread(FleetSimulator(rollouts=[failed_rollout()]))
        return await capture(DESK, requests, "rollout", (100, 30))

    first, second = asyncio.run(take()), asyncio.run(take())
    assert first == second
    assert "@font-face" not in first
    words = " ".join("".join(ElementTree.fromstring(first).itertext()).replace("\u00a0", " ").split())
    assert "1 of 1 targeted devices failed" in words


def test_a_device_can_be_named() -> None:
    requests = RequestThread(FleetSimulator(devices=[device("edge-1"), device("edge-2")]))
    svg = asyncio.run(capture(DESK, requests, "device", (80, 24), name="edge-2"))
    assert "edge-2" in svg


def test_a_server_that_does_not_answer_gives_no_picture() -> None:
    fleet = FleetSimulator()
    fleet.away = "connection refused"
    with pytest.raises(NotCaptured, match="connection refused"):
        asyncio.run(capture(DESK, RequestThread(fleet), "fleet", (80, 24)))


def test_the_command_says_in_one_line_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token, picture = tmp_path / "absent", tmp_path / "x.svg"
    assert main(["--server", "http://127.0.0.1:9", "--token-file", str(token), "-o", str(picture)]) == 1
    assert "absent" in capsys.readouterr().err
    assert not picture.exists()
