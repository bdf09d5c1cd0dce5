"""Pages, help and commands; and how two pages look, line by line."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.fleet.tui.stage import stage
from tests.simulators.fleet_client import FleetSimulator, backend, bundle, device, failed_rollout, model, rollout

SNAPSHOTS = Path(__file__).parent / "snapshots"


def sample() -> FleetSimulator:
    ill = model(state="rolled_back", attempted_version="1.1.0", reason="wrong answers: 61 of 64 golden samples differ")
    return FleetSimulator(
        devices=[
            device("edge-1", ill),
            device("edge-2", model(signed=False, backend=backend("onnxruntime", "fp32", 2)), board="intel-nuc"),
            device("日本語-①-👍", online=False, last_seen_ms=None),
        ],
        rollouts=[failed_rollout(), rollout("r1")],
        bundles=[bundle(), bundle("1.1.0", signed=False)],
    )


@pytest.mark.parametrize(
    ("page", "keys"), [("fleet", ()), ("devices", ()), ("rollouts", ("enter",)), ("rollouts", ("r",))]
)
def test_a_page_looks_as_it_did(page: str, keys: tuple[str, ...]) -> None:
    """To accept a new look: MINDEDGE_UPDATE_SNAPSHOTS=1 pytest, then read the difference."""
    kept = SNAPSHOTS / f"{'-'.join((page, *keys))}.txt"

    async def play() -> str:
        async with stage(sample(), page=page) as scene:
            await scene.press(*keys)
            return scene.text + "\n"

    shown = asyncio.run(play())
    if os.environ.get("MINDEDGE_UPDATE_SNAPSHOTS"):
        kept.write_text(shown, "utf-8")
    assert shown == kept.read_text("utf-8")


def test_digits_go_to_pages_and_back_to_their_table() -> None:
    async def play() -> None:
        async with stage(sample(), page="fleet") as scene:
            await scene.press("3", "enter")
            assert "wave 1" in scene.text
            await scene.press("4")
            assert "SERVED BY" in scene.text
            await scene.press("3")
            assert "wave 1" in scene.text, "a page is as it was left"
            await scene.press("3")
            assert "FAILED" in scene.text, "the digit of the page one is on goes back to its table"

    asyncio.run(play())


def test_a_click_on_the_name_of_a_page_goes_there() -> None:
    async def play() -> None:
        async with stage(sample(), page="fleet") as scene:
            await scene.pilot.click("Masthead", offset=(scene.lines[0].index("Bundles"), 0))
            await scene.settle()
            await scene.ask()
            assert "UNSIGNED" in scene.text

    asyncio.run(play())


def test_help_opens_and_closes_with_the_same_key_and_asks_nothing_of_the_fleet() -> None:
    async def play() -> None:
        async with stage(sample(), page="fleet") as scene:
            await scene.press("question_mark")
            assert "EVERYWHERE" in scene.text
            await scene.press("q")
            assert "EVERYWHERE" not in scene.text
            assert scene.app.is_running
            assert scene.fleet.acts == []

    asyncio.run(play())


def test_the_command_palette_opens_a_device_by_part_of_its_name() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices") as scene:
            await scene.press("ctrl+p", *"dge-2")
            while "Device edge-2" not in scene.text:
                await scene.settle()
            await scene.press("down", "enter")
            await scene.ask()
            assert "MODEL digits 1.0.0" in scene.text
            assert scene.lines[1].startswith(" ● edge-2")

    asyncio.run(play())


def test_the_command_palette_asks_before_a_verb_too() -> None:
    async def play() -> None:
        async with stage(sample(), page="rollouts") as scene:
            titles = [entry.title for entry in scene.app.palette_entries()]
            assert "Abort rollout" in titles
            next(entry for entry in scene.app.palette_entries() if entry.title == "Abort rollout").run()
            await scene.settle()
            assert "Abort canary r2?" in scene.text
            assert scene.fleet.acts == []

    asyncio.run(play())


def test_an_overview_of_a_calm_fleet_says_so() -> None:
    async def play() -> None:
        async with stage(FleetSimulator(devices=[device("edge-1")]), page="fleet") as scene:
            assert "nothing needs attention" in scene.text

    asyncio.run(play())


def test_a_bundle_opens_and_tells_variants_and_what_was_left_out() -> None:
    async def play() -> None:
        fleet = sample()
        fleet.device_list[0] = device("edge-1", model())
        async with stage(fleet, page="bundles") as scene:
            await scene.press("down" if "1.1.0" in scene.lines[2] else "home", "enter")
            await scene.ask()
            text = scene.text
            assert "digits 1.0.0  signed" in text
            assert "tflite-int8-cpu: the converter does not know Einsum" in text
            row = next(line for line in scene.lines if "openvino-int8-cpu" in line)
            assert row.split()[1:] == ["312", "kB", "0.975", "0.0025", "2"]
            await scene.press("escape")
            assert "SERVED BY" in scene.text

    asyncio.run(play())
