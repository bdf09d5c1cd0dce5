"""Any size, any locale, with and without colours."""

from __future__ import annotations

import asyncio
import re

import pytest
from rich.cells import cell_len

from fleet.tui.glyphs import ASCII, UNICODE
from tests.fleet.tui.stage import Stage, stage
from tests.simulators.fleet_client import FleetSimulator, bundle, device, failed_rollout, model, rollout

WIDE = "日本語-①-👍"


def sample() -> FleetSimulator:
    return FleetSimulator(
        devices=[device("edge-1"), device(WIDE, model(state="failed", reason="no 空き容量\x1b[31m\nleft"))],
        rollouts=[failed_rollout(), rollout("r1", name=WIDE)],
        bundles=[bundle(), bundle("1.1.0", signed=False)],
    )


async def walk(scene: Stage) -> None:
    """Every page and dialog; what is seen never exceeds the terminal."""
    for keys in (("1",), ("2",), ("down",), ("enter",), ("escape", "3"), ("enter",), ("a",), ("n", "escape", "4"),
                 ("question_mark",), ("escape",), ("ctrl+p",), ("escape",)):  # fmt: skip
        await scene.press(*keys)
        assert len(scene.lines) == scene.app.size.height
        assert max(cell_len(line) for line in scene.lines) <= scene.app.size.width


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (80, 24), (200, 60)], ids=str)
def test_every_page_fits_every_size(size: tuple[int, int]) -> None:
    async def play() -> None:
        async with stage(sample(), size=size, page="fleet") as scene:
            await walk(scene)

    asyncio.run(play())


@pytest.mark.parametrize("size", [(39, 24), (80, 9), (20, 5)], ids=str)
def test_below_40x10_there_is_one_line_and_nothing_else(size: tuple[int, int]) -> None:
    async def play() -> None:
        async with stage(sample(), size=size) as scene:
            assert [line for line in scene.lines if line] == ["too small: min 40x10"]

    asyncio.run(play())


def test_a_terminal_that_is_resized_again_and_again_shows_everything_in_the_end() -> None:
    async def play() -> None:
        async with stage(sample()) as scene:
            before = scene.lines
            for size in ((30, 8), (120, 40), (40, 10), (1, 1), (200, 12), (80, 24)):
                await scene.resize(*size)
            assert scene.lines == before

    asyncio.run(play())


def test_columns_line_up_beside_wide_names() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices") as scene:
            title = next(line for line in scene.lines if "BOARD" in line)
            wide = next(line for line in scene.lines if "日本" in line)
            before_board = wide[: wide.index("raspberry")]
            assert cell_len(before_board) == cell_len(title[: title.index("BOARD")])

    asyncio.run(play())


def test_without_utf_8_every_character_on_every_page_is_ascii() -> None:
    async def play() -> None:
        async with stage(sample(), glyphs=ASCII, page="fleet") as scene:
            for key in ("1", "2", "3", "enter", "a", "n", "4", "question_mark"):
                await scene.press(key)
                assert scene.text.isascii(), [line for line in scene.lines if not line.isascii()]
            await scene.press("escape", "2")
            assert any(line.startswith("* edge-1") for line in scene.lines)

    asyncio.run(play())


def test_with_no_color_no_colour_reaches_the_terminal() -> None:
    async def play() -> None:
        async with stage(sample(), no_colours=True, page="devices") as scene:
            await scene.press("3", "enter", "a")
            segments = [segment for widget in scene.app.screen.walk_children() for line in widget.render_lines(
                widget.size.region) for segment in line]  # fmt: skip
            filters = scene.app.get_line_filters()
            for each in filters:
                segments = each.apply(segments, scene.app.screen.styles.background)
            assert segments
            assert all(s.style is None or (s.style.color is None and s.style.bgcolor is None) for s in segments)

    asyncio.run(play())


def test_what_a_device_says_cannot_steer_the_terminal() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices", size=(120, 24)) as scene:
            await scene.press("down")
            assert "no 空き容量" in scene.text
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", scene.text)

    asyncio.run(play())


def test_the_two_tables_of_marks_are_one_cell_wide_where_they_must_be() -> None:
    for glyphs in (UNICODE, ASCII):
        for name in glyphs.__dataclass_fields__:
            mark = getattr(glyphs, name)
            if name not in ("at_least", "at_most", "arrow", "is_ascii"):
                assert cell_len(mark) == 1, name
            assert not glyphs.is_ascii or name == "is_ascii" or mark.isascii(), name
