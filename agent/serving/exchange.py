"""One request and its answer, as the HTTP connection hands it to the application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.errors import RequestRefused
from agent.serving.body import Body
from agent.serving.routes import Target

JSON = b"application/json"
BINARY = b"application/octet-stream"
TEXT = b"text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """A whole answer. ``headers``: further lines, each ending in CRLF."""

    status: int
    content_type: bytes = JSON
    parts: Sequence[bytes | memoryview] = (b"",)
    headers: bytes = b""


class Connection(Protocol):
    """What an exchange needs of the connection it came from."""

    def answer(self, exchange: Exchange, answer: Answer) -> None:
        """Send ``answer`` when the exchanges before it on this connection are answered."""


@dataclass(eq=False, slots=True)
class Exchange:
    """``headers`` maps lower-case names to values. ``arrived_ns``: CLOCK_MONOTONIC when the body was complete.

    ``target``: what the path stands for, once admitted. ``is_gone``: the client has left; an answer would go nowhere.
    """

    connection: Connection
    method: bytes
    path: bytes
    headers: dict[bytes, bytes]
    keep_alive: bool = True
    body: Body | None = None
    target: Target | None = None
    arrived_ns: int = 0
    is_gone: bool = False
    ready_answer: Answer | None = field(default=None, repr=False)

    def answer(self, answer: Answer) -> None:
        """Give the body's memory back and answer. Exactly once for each exchange."""
        self.release()
        self.connection.answer(self, answer)

    def release(self) -> None:
        """Give the body's memory back."""
        if self.body is not None:
            self.body.release()
            self.body = None


class Application(Protocol):
    """What serves the exchanges."""

    def admit(self, exchange: Exchange, content_length: int | None) -> Body | None:
        """Called when the headers are in: where to collect the body, None if there is none to collect.

        Raises RequestRefused: the answer without reading the body.
        """

    def handle(self, exchange: Exchange) -> None:
        """Called with the whole request; answers now or later. Raises RequestRefused instead of answering."""

    def refusal(self, error: RequestRefused) -> Answer:
        """The answer to a request that is refused."""
