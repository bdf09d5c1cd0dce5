"""Saves what a screen shows of a live server as SVG, without a terminal; for documentation.

    python -m fleet.tui.capture --server URL --token-file FILE --screen rollouts --size 100x30 -o docs/tui.svg

The file needs no font from elsewhere and has the same ids every time, so that it changes only when the content does.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from pathlib import Path

from fleet.client import FleetClient
from fleet.tui.app import FleetApp
from fleet.tui.desk import Desk
from fleet.tui.glyphs import UNICODE
from fleet.tui.messages import DeviceWanted, RolloutWanted
from fleet.tui.request_thread import Requests, RequestThread

_PAGES = {
    "fleet": "fleet", "devices": "devices", "device": "devices", "rollouts": "rollouts", "rollout": "rollouts",
    "bundles": "bundles", "help": "fleet",
}  # fmt: skip
_SIZE = re.compile(r"(?P<columns>[0-9]{2,3})x(?P<rows>[0-9]{2,3})")
WAIT_S = 10.0


class NotCaptured(Exception):
    """The server gave no answer to show; the message is its trouble."""


def tidy(svg: str) -> str:
    """Without fonts from the network, and with fixed ids."""
    svg = re.sub(r"\s*@font-face\s*\{[^}]*\}", "", svg)
    svg = re.sub(r"terminal-[0-9]+", "mindfleet", svg)
    return re.sub(r"font-family:\s*Fira Code, monospace", "font-family: monospace", svg)


async def capture(
    desk: Desk, reader: Requests, screen: str, size: tuple[int, int], *, name: str | None = None,
    keys: tuple[str, ...] = (), wait_s: float = WAIT_S,
) -> str:  # fmt: skip
    """The SVG of ``screen`` (of ``name``, or the first there is) after ``keys``. Raises NotCaptured."""
    app = FleetApp(desk, reader, reader, first_page=_PAGES[screen])
    async with app.run_test(size=size) as pilot:
        await _answered(app, wait_s)
        await pilot.pause()
        if screen in ("device", "rollout"):
            if name is None:
                await pilot.press("enter")
            else:
                app.post_message(DeviceWanted(name) if screen == "device" else RolloutWanted(name))
            await pilot.pause()
            await _answered(app, wait_s)
        await pilot.press(*(("question_mark",) if screen == "help" else ()), *keys)
        await pilot.pause()
        return tidy(app.export_screenshot(title=f"mindfleet tui: {screen}"))


async def _answered(app: FleetApp, wait_s: float) -> None:
    deadline_s = time.monotonic() + wait_s
    while app.live_screen is None or app.live_screen.answer is None:
        if app.link.trouble is not None or time.monotonic() > deadline_s:
            raise NotCaptured(app.link.trouble or "the server did not answer in time")
        await asyncio.sleep(0.02)


def _size(text: str) -> tuple[int, int]:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f'"{text}" is not COLUMNSxROWS, like "100x30"')
    return int(match["columns"]), int(match["rows"])


def main(arguments: list[str] | None = None) -> int:
    """Exit 0 saved, 1 not."""
    parser = argparse.ArgumentParser(
        prog="python -m fleet.tui.capture", description="Save a screen of mindfleet tui as SVG.",
        epilog="example:\n  python -m fleet.tui.capture --server http://127.0.0.1:8080 --token-file operator.token "
               "--screen rollouts -o tui.svg",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--server", required=True, metavar="URL")
    parser.add_argument("--token-file", required=True, type=Path, metavar="FILE")
    parser.add_argument("--screen", choices=sorted(_PAGES), default="fleet")
    parser.add_argument("--name", help="which device or rollout (default: the first)")
    parser.add_argument("--size", type=_size, default=(100, 30), metavar="COLUMNSxROWS")
    parser.add_argument("--press", default="", metavar="KEY,KEY", help="keys to press before")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    desk = Desk(args.server, UNICODE, lambda: time.time_ns() // 1_000_000)
    try:
        reader = RequestThread(FleetClient(args.server, args.token_file.read_text().strip()))
        keys = tuple(key for key in args.press.split(",") if key)
        svg = asyncio.run(capture(desk, reader, args.screen, args.size, name=args.name, keys=keys))
        args.output.write_text(svg)
    except (NotCaptured, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"not captured: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
