"""The table of devices: search, sort, many rows."""

from __future__ import annotations

import asyncio

from fleet.http import api_types as api
from fleet.tui.view_models import device_rows
from fleet.tui.widgets.row_table import RowTable
from tests.fleet.tui.stage import stage
from tests.simulators.fleet_client import FleetSimulator, backend, device, evidence, model


def sample() -> FleetSimulator:
    return FleetSimulator(
        devices=[
            device("edge-10", model(p90_ms=3.0)),
            device("edge-9", model(p90_ms=1.0, backend=backend("tflite", "fp32", 4), signed=False)),
            device("cam-1", model(p90_ms=2.0), online=False, board="intel-nuc", labels={"site": "lyon"}),
        ]
    )


def first_cells(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines if line[:1] in ("●", "○")]


def test_a_search_shows_devices_with_all_its_words_and_escape_gives_it_up() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices") as scene:
            await scene.press("slash", *"lyon", "space", *"offl")
            assert first_cells(scene.lines) == ["cam-1"]
            assert "1 with lyon offl" in scene.text
            await scene.press("enter", "s")
            assert first_cells(scene.lines) == ["cam-1"], "Enter keeps the search; s is a key again"
            await scene.press("slash", "escape")
            assert len(first_cells(scene.lines)) == 3

    asyncio.run(play())


def test_a_search_that_finds_nothing_says_how_to_leave_it() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices") as scene:
            await scene.press("slash", *"zebra")
            assert first_cells(scene.lines) == []
            assert "no device has all these words" in scene.text

    asyncio.run(play())


def test_s_sorts_by_the_next_column_and_a_capital_s_turns_the_order_round() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices") as scene:
            assert first_cells(scene.lines) == ["cam-1", "edge-9", "edge-10"]
            await scene.press("S")
            assert first_cells(scene.lines) == ["edge-10", "edge-9", "cam-1"]
            await scene.press("s")
            assert first_cells(scene.lines)[0] == "cam-1", "by board, intel-nuc first"
            assert "by board" in scene.text

    asyncio.run(play())


def test_a_click_on_a_title_sorts_by_it() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices") as scene:
            title = next(line for line in scene.lines if "P90 ms" in line)
            await scene.pilot.click(RowTable, offset=(title.index("P90"), 0))
            await scene.settle()
            assert first_cells(scene.lines) == ["edge-9", "cam-1", "edge-10"]

    asyncio.run(play())


def test_a_click_moves_the_cursor_and_a_second_one_opens() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices") as scene:
            await scene.pilot.click(RowTable, offset=(10, 2))
            await scene.settle()
            assert scene.app.screen.query_one(RowTable).cursor_key == "edge-9"
            await scene.pilot.click(RowTable, offset=(10, 2))
            await scene.settle()
            assert "MODEL digits 1.0.0  UNSIGNED" in scene.text

    asyncio.run(play())


def test_one_changed_device_among_three_thousand_repaints_one_line() -> None:
    async def play() -> None:
        fleet = FleetSimulator(devices=[device(f"edge-{number:04}") for number in range(3000)])
        async with stage(fleet, page="devices") as scene:
            table = scene.app.screen.query_one(RowTable)
            painted: list[int] = []
            render_line = table.render_line
            table.render_line = lambda y: (painted.append(y), render_line(y))[1]  # type: ignore[method-assign]
            fleet.device_list[2] = device("edge-0002", model(p90_ms=9.87))
            fleet.device_list[2900] = device("edge-2900", model(p90_ms=9.87))  # far below what is seen
            await scene.ask()
            assert painted == [3], "the title is line 0"
            assert "9.87" in scene.lines[5]

    asyncio.run(play())


def test_cells_are_made_for_seen_rows_only() -> None:
    async def play() -> None:
        fleet = FleetSimulator(devices=[device(f"edge-{number:04}") for number in range(3000)])
        async with stage(fleet, page="devices") as scene:
            table = scene.app.screen.query_one(RowTable)
            await scene.press("end")
            assert "edge-2999" in scene.text
            await scene.press("pageup", "home", "pagedown")
            assert table.cursor_key == "edge-0019"
            made: list[int] = []
            rows = device_rows.entries(fleet.device_list)
            listing = device_rows.listing(rows, 0, scene.app._desk.glyphs)
            cells_at = listing.cells_at
            table.set_listing(listing._replace(cells_at=lambda row: (made.append(row), cells_at(row))[1]))
            await scene.settle()
            assert 0 < len(set(made)) < 100

    asyncio.run(play())


def test_the_cursor_stays_on_its_device_when_the_order_changes() -> None:
    async def play() -> None:
        async with stage(sample(), page="devices") as scene:
            table = scene.app.screen.query_one(RowTable)
            await scene.press("end")
            assert table.cursor_key == "edge-10"
            await scene.press("S")
            assert (table.cursor, table.cursor_key) == (0, "edge-10")
            scene.fleet.device_list = [each for each in scene.fleet.device_list if each.id != "edge-10"]
            await scene.ask()
            assert table.cursor_key == "edge-9"

    asyncio.run(play())


def test_a_device_page_tells_what_serves_and_why_and_what_was_refused() -> None:
    async def play() -> None:
        fleet = FleetSimulator(devices=[device("edge-1")])
        event = api.EventView(device="edge-1", at_ms=0, kind="engine.crashed", text="illegal instruction")
        fleet.details["edge-1"] = api.DeviceDetail(
            device=fleet.device_list[0], evidence={"digits": evidence()}, events=[event]
        )
        async with stage(fleet, page="devices", size=(100, 40)) as scene:
            await scene.press("enter")
            text = scene.text
            assert "openvino int8 on cpu with 1 thread" in text
            assert "fastest at the 90th percentile of 4 candidates" in text
            assert "refused     tflite-fp32-cpu threads=1: the runtime tflite is not installed here" in text
            assert "quarantined openvino-fp32-cpu threads=1: illegal instruction" in text
            assert "1.84\N{MULTIPLICATION SIGN} as fast as ONNX Runtime's defaults" in " ".join(text.split())
            assert "engine.crashed illegal instruction" in text
            assert text.index("raced") < text.index("refused") < text.index("quarantined")

    asyncio.run(play())
