"""The server goes away and comes back."""

from __future__ import annotations

import asyncio

from fleet.tui.view_models.spans import Tone
from fleet.tui.widgets.row_table import RowTable
from tests.fleet.tui.stage import stage
from tests.simulators.fleet_client import FleetSimulator, bundle, device, rollout


def test_a_server_that_goes_away_leaves_the_data_greyed_with_its_age_and_its_return_is_told() -> None:
    async def play() -> None:
        async with stage(FleetSimulator(devices=[device("edge-1")]), page="devices") as scene:
            table = scene.app.screen.query_one(RowTable)
            bright = table.tone_style(Tone.BAD)
            scene.fleet.away = "connection refused"
            scene.pass_time(7)
            await scene.ask()
            assert "server does not answer: connection refused, trying again; data is 7 s old" in scene.text
            assert "edge-1" in scene.text
            assert table.tone_style(Tone.BAD) == table.tone_style(Tone.FAINT) != bright
            scene.fleet.away = None
            scene.fleet.device_list.append(device("edge-2"))
            await scene.ask()
            assert "server does not answer" not in scene.text
            assert "server answers again" in scene.text
            assert "edge-2" in scene.text
            assert table.tone_style(Tone.BAD) == bright

    asyncio.run(play())


def test_a_server_that_is_away_from_the_start_is_told_on_every_page() -> None:
    async def play() -> None:
        fleet = FleetSimulator()
        fleet.away = "name or service not known"
        async with stage(fleet, page="fleet") as scene:
            for page in "1234":
                await scene.press(page)
                assert "server does not answer: name or service not known, trying again" in scene.text

    asyncio.run(play())


def test_a_token_that_is_refused_is_told_in_the_servers_words() -> None:
    async def play() -> None:
        fleet = FleetSimulator()
        fleet.refusal = "this token may not see devices"
        async with stage(fleet, page="devices") as scene:
            assert "server refuses: this token may not see devices" in scene.text

    asyncio.run(play())


def test_only_what_the_present_screen_shows_is_asked_for() -> None:
    async def play() -> None:
        fleet = FleetSimulator(devices=[device("edge-1")], rollouts=[rollout("r1")], bundles=[bundle()])
        async with stage(fleet, page="devices") as scene:
            fleet.asked.clear()
            await scene.ask()
            assert set(fleet.asked) == {"devices"}
            await scene.press("enter")
            fleet.asked.clear()
            await scene.ask()
            assert set(fleet.asked) == {"device"}

    asyncio.run(play())


def test_a_device_that_is_gone_while_it_is_looked_at_is_told_and_one_can_go_back() -> None:
    async def play() -> None:
        async with stage(FleetSimulator(devices=[device("edge-1")]), page="devices") as scene:
            await scene.press("enter")
            scene.fleet.device_list.clear()
            await scene.ask()
            assert "server refuses: no device 'edge-1'" in scene.text
            await scene.press("escape")
            assert "no device yet" in scene.text
            assert "server refuses" not in scene.text

    asyncio.run(play())


def test_while_the_server_is_away_the_fleet_page_claims_nothing() -> None:
    async def play() -> None:
        fleet = FleetSimulator(devices=[device("edge-1")], rollouts=[rollout("r1")])
        async with stage(fleet, page="fleet") as scene:
            assert "0.1.0 ok, broker connected" in scene.text
            fleet.away = "connection refused"
            await scene.ask()
            assert "0.1.0 unknown: it does not answer" in scene.text
            assert "broker connected" not in scene.text
            assert "1 online" not in scene.text
            assert "ROLLOUTS, as last heard" in scene.text
            fleet.away = None
            await scene.ask()
            assert "0.1.0 ok, broker connected" in scene.text

    asyncio.run(play())
