"""Blocking requests off the screen's thread, one at a time."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from fleet.tui.fleet_api import FleetApi

T = TypeVar("T")


class Requests(Protocol):
    """Asks a server, one question at a time. ``call`` raises what the question raises."""

    async def call(self, question: Callable[[FleetApi], T]) -> T: ...


class RequestThread:
    """Owns ``client``: no other thread may use it. The thread starts with the first call.

    It is a daemon thread, so that leaving the program never waits for a server that does not answer.
    """

    def __init__(self, client: FleetApi) -> None:
        self._client = client
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def call(self, question: Callable[[FleetApi], T]) -> T:
        """What ``question`` returns. A caller that is canceled meanwhile loses the answer, not the request."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def ask() -> None:
            try:
                answer = question(self._client)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the one who asked
                _hand_over(loop, future, future.set_exception, error)
            else:
                _hand_over(loop, future, future.set_result, answer)

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="fleet-requests", daemon=True)
            self._thread.start()
        self._waiting.put(ask)
        return await future

    def _work(self) -> None:
        while True:
            self._waiting.get()()


def _hand_over(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], deliver: Callable[[Any], None], value: Any
) -> None:
    def settle() -> None:
        if not future.done():
            deliver(value)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the program has ended: nobody waits for the answer
        return
