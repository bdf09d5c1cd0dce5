"""The application on a stage: an in-memory fleet, a clock in the test's hand, and no polling but when a test asks."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timezone
from typing import Any, TypeVar

from rich.cells import cell_len
from textual.pilot import Pilot

from fleet.tui.app import FleetApp
from fleet.tui.desk import Desk
from fleet.tui.fleet_api import FleetApi
from fleet.tui.glyphs import UNICODE, Glyphs
from tests.simulators.fleet_client import NOW_MS, SERVER, FleetSimulator

T = TypeVar("T")
_CELL = re.compile(r'<text[^>]*? x="([0-9.]+)"[^>]*?clip-path="url\(#[^)]*-line-(\d+)\)"[^>]*>([^<]*)</text>')
_CELL_WIDTH = 12.2


class InlineRequests:
    """Answers at once, in the screen's own thread."""

    def __init__(self, fleet: FleetApi) -> None:
        self._fleet = fleet

    async def call(self, question: Callable[[FleetApi], T]) -> T:
        return question(self._fleet)


async def _for_ever(seconds: float) -> None:
    await asyncio.Event().wait()


@dataclass
class Stage:
    """``now_s`` is the monotonic clock of the application."""

    fleet: FleetSimulator
    app: FleetApp
    pilot: Pilot[None]
    clock: list[float] = field(default_factory=lambda: [100.0])

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(6):
            await self.pilot.pause(0)

    async def ask(self) -> None:
        """One more round of questions."""
        await self.app.ask_once()
        await self.settle()

    def pass_time(self, seconds: float) -> None:
        self.clock[0] += seconds

    async def resize(self, columns: int, rows: int) -> None:
        await self.pilot.resize_terminal(columns, rows)
        await self.settle()

    @property
    def lines(self) -> list[str]:
        return lines_of(self.app)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@asynccontextmanager
async def stage(
    fleet: FleetSimulator, *, size: tuple[int, int] = (80, 24), page: str = "rollouts", glyphs: Glyphs = UNICODE,
    **more: Any,
) -> AsyncIterator[Stage]:  # fmt: skip
    """The application with ``page`` shown and answered."""
    clock = [100.0]
    desk = Desk(SERVER, glyphs, lambda: NOW_MS, timezone.utc)
    requests = InlineRequests(fleet)
    app = FleetApp(desk, requests, requests, first_page=page, rest=_for_ever, clock_s=lambda: clock[0], **more)
    async with app.run_test(size=size) as pilot:
        scene = Stage(fleet, app, pilot, clock)
        while app.live_screen is None or (app.live_screen.answer is None and app.link.trouble is None):
            await scene.settle()
        await scene.settle()
        yield scene


def lines_of(app: FleetApp) -> list[str]:
    """What the screen shows, line by line, read back from its picture."""
    rows: dict[int, str] = {}
    found = _CELL.findall(app.export_screenshot())
    pieces = sorted((int(row), float(x), html.unescape(text)) for x, row, text in found)
    for row, x, text in pieces:
        column = round(x / _CELL_WIDTH)
        before = rows.get(row, "")
        rows[row] = before + " " * (column - cell_len(before)) + text.replace("\u00a0", " ")
    return [rows.get(row, "").rstrip() for row in range(app.size.height)]
