"""Keys from a terminal that does not speak UTF-8."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from textual import events
from textual.message import Message

from fleet.tui.driver import TolerantDriver

DEADLINE_S = 10.0


class DriverOnAPipe(TolerantDriver):
    """The driver's own input thread, reading from a pipe and keeping what it read."""

    def __init__(self, fileno: int) -> None:
        self.fileno = fileno
        self.exit_event = threading.Event()
        self._debug = False
        self.keys: list[str] = []

    def process_message(self, message: Message) -> None:
        if isinstance(message, events.Key):
            self.keys.append(message.key)


def test_a_byte_that_is_no_utf_8_is_dropped_and_the_next_key_counts() -> None:
    reading, writing = os.pipe()
    driver = DriverOnAPipe(reading)
    failures: list[Any] = []
    thread = threading.Thread(target=_run, args=(driver, failures))
    thread.start()
    os.write(writing, b"\xe9")
    deadline = time.monotonic() + DEADLINE_S
    while "q" not in driver.keys and thread.is_alive() and time.monotonic() < deadline:
        os.write(writing, b"q")
        time.sleep(0.02)
    driver.exit_event.set()
    thread.join(DEADLINE_S)
    os.close(reading)
    os.close(writing)
    assert not failures
    assert "q" in driver.keys


def _run(driver: DriverOnAPipe, failures: list[Any]) -> None:
    try:
        driver.run_input_thread()
    except BaseException as error:  # noqa: BLE001 - told to the test
        failures.append(error)
