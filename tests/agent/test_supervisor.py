"""The daemon's own thread, with parts that fail."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from agent.config import AgentConfig
from agent.supervisor import Daemon, DaemonParts
from agent.watchdog import WatchedWait


class _Rounds:
    """A wait that ends after so many rounds."""

    def __init__(self, number: int) -> None:
        self.left = number

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        del event, timeout_s
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), msgspec.DecodeError("cut short")])
def test_a_snapshot_that_cannot_be_had_is_logged_once_and_the_daemon_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:  # fmt: skip
    snapshots: list[Exception | None] = [error, error, None, error]
    sent: list[str] = []

    def snapshot() -> Any:
        fails = snapshots.pop(0)
        if fails is not None:
            raise fails
        return SimpleNamespace(models=[])

    parts = SimpleNamespace(
        config=AgentConfig(data_dir=tmp_path), telemeter=SimpleNamespace(start=lambda: None, read=lambda: "telemetry"),
        server=SimpleNamespace(snapshot=snapshot), session=SimpleNamespace(telemetry=sent.append),
    )  # fmt: skip
    daemon = Daemon()
    daemon.assemble(cast(DaemonParts, parts))
    daemon._watch(cast(WatchedWait, _Rounds(4)))
    assert sent == ["telemetry"]
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 2, "once per row"
