"""What the demo says while it works: a numbered line for each step, and a sign of life where one takes long."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SILENCE_S = 4.0


class Narrator:
    """Writes to stderr, so that ``--json`` keeps stdout to itself. Colour only on a terminal without NO_COLOR."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._said = time.monotonic()
        self._color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """One line with the time since the start."""
        with self._lock:
            self._said = time.monotonic()
            print(f"[{self._said - self._started:5.1f} s] {text}", file=sys.stderr, flush=True)

    def step(self, number: int, text: str) -> None:
        """The head line of a step."""
        self.say(self._paint("1", f"{number}. {text}"))

    def warn(self, text: str) -> None:
        """A line in red: something that must not be overlooked, such as an unsigned bundle."""
        self.say(self._paint("31", text))

    @contextmanager
    def waiting(self, text: str | Callable[[], str]) -> Iterator[None]:
        """While the block runs, say ``text`` (asked anew each time) whenever nothing was said for four seconds."""
        done = threading.Event()
        thread = threading.Thread(target=self._heartbeat, args=(done, text), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def _heartbeat(self, done: threading.Event, text: str | Callable[[], str]) -> None:
        while not done.wait(0.2):
            if time.monotonic() - self._said >= SILENCE_S:
                self.say(f"   … {text() if callable(text) else text}")

    def _paint(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._color else text
