"""Starting, pausing, resuming and aborting from the keyboard, with a confirmation."""

from __future__ import annotations

import asyncio

import pytest

from fleet.domain.wave import Tally
from tests.fleet.tui.stage import stage
from tests.simulators.fleet_client import NOW_MS, FleetSimulator, bundle, failed_rollout, rollout, wave


def fleet_of(*rollouts: object) -> FleetSimulator:
    return FleetSimulator(rollouts=list(rollouts), bundles=[bundle("1.1.0", signed=False)])  # type: ignore[arg-type]


@pytest.mark.parametrize("yes", ["y", "enter"])
def test_p_and_a_clear_yes_pauses_the_rollout_under_the_cursor(yes: str) -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r9"), rollout("r1"))) as scene:
            await scene.press("down", "p")
            assert "Pause canary r1?" in scene.text
            assert "1 device in flight goes on to the end." in scene.text
            assert scene.fleet.acts == []
            await scene.press(yes)
            assert scene.fleet.acts == [("r1", "pause")]
            assert "pause: canary r1 is now paused" in scene.text
            assert "paused" in next(line for line in scene.lines if line.startswith("canary r1"))

    asyncio.run(play())


@pytest.mark.parametrize("no", ["n", "escape"])
def test_a_no_sends_nothing(no: str) -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"))) as scene:
            await scene.press("a")
            assert "Abort canary r1?" in scene.text
            await scene.press(no)
            assert "Abort canary r1?" not in scene.text
            assert scene.fleet.acts == []

    asyncio.run(play())


@pytest.mark.parametrize(
    ("state", "key", "verb"),
    [("draft", "s", "start"), ("running", "p", "pause"), ("paused", "r", "resume"), ("paused", "a", "abort"),
     ("succeeded", "b", "rollback")],
)  # fmt: skip
def test_every_verb_has_a_key_on_the_page_of_a_rollout(state: str, key: str, verb: str) -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1", state))) as scene:
            await scene.press("enter", key)
            assert scene.fleet.acts == []
            await scene.press("y")
            assert scene.fleet.acts == [("r1", verb)]

    asyncio.run(play())


def test_a_click_on_yes_is_a_yes_and_a_click_on_no_is_a_no() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"))) as scene:
            await scene.press("p")
            await scene.pilot.click("Choice:last-of-type")
            await scene.settle()
            assert scene.fleet.acts == []
            await scene.press("p")
            await scene.pilot.click("Choice:first-of-type")
            await scene.settle()
            assert scene.fleet.acts == [("r1", "pause")]

    asyncio.run(play())


def test_a_verb_that_has_no_place_now_is_answered_with_what_can_be_done() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1", "paused"))) as scene:
            await scene.press("p")
            assert "cannot pause: canary r1 is paused; possible now: r resume, a abort, b roll b" in scene.text
            assert scene.fleet.acts == []

    asyncio.run(play())


def test_a_refusal_of_the_server_is_one_line() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"))) as scene:
            await scene.press("p")
            scene.fleet.rollout_list = [rollout("r1", "succeeded")]  # meanwhile, on the server
            await scene.press("y")
            assert "refused: cannot pause rollout r1: it is succeeded" in scene.text

    asyncio.run(play())


def test_a_verb_into_the_void_says_that_it_may_not_have_arrived() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"))) as scene:
            await scene.press("p")
            scene.fleet.away = "timed out"
            await scene.press("y")
            assert "pause may not have arrived (timed out)" in scene.text

    asyncio.run(play())


def test_without_a_rollout_a_verb_says_so() -> None:
    async def play() -> None:
        async with stage(fleet_of()) as scene:
            assert "no rollout yet" in scene.text
            await scene.press("s")
            assert "cannot start: no rollout is here" in scene.text

    asyncio.run(play())


def test_the_cursor_stays_on_its_rollout_when_a_newer_one_comes() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"))) as scene:
            scene.fleet.rollout_list.insert(0, rollout("r2"))
            await scene.ask()
            await scene.press("p", "y")
            assert scene.fleet.acts == [("r1", "pause")]

    asyncio.run(play())


def test_a_dialog_too_small_to_read_takes_no_yes() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"))) as scene:
            await scene.press("a")
            await scene.resize(30, 8)
            assert [line for line in scene.lines if line] == ["too small: min 40x10"]
            await scene.press("y")
            assert scene.fleet.acts == []
            await scene.resize(80, 24)
            await scene.press("y")
            assert scene.fleet.acts == [("r1", "abort")]

    asyncio.run(play())


def test_at_the_smallest_size_the_choices_of_a_dialog_are_seen() -> None:
    many = failed_rollout(counts=Tally(targeted=900, succeeded=400, failed=9), waves=[wave(1, "failed", failed=9)])

    async def play() -> None:
        async with stage(fleet_of(many), size=(40, 10)) as scene:
            for key in ("r", "a", "b"):
                await scene.press(key)
                assert "n Do nothing" in scene.text
                await scene.press("escape")

    asyncio.run(play())


def test_the_page_of_a_stopped_rollout_tells_wave_thresholds_and_reason() -> None:
    async def play() -> None:
        async with stage(fleet_of(failed_rollout(), rollout("r0", started_ms=NOW_MS)), size=(100, 24)) as scene:
            await scene.press("enter")
            text = scene.text
            assert "PAUSED  wave 1: 1 of 1 targeted devices failed (100 %, more than 0 %)" in text
            assert "0/1 ok 1 failed 0 in flight" in text
            assert "ok 0 % (needs ≥ 100 %) · failed 100 % (allows ≤ 0 %)" in text
            assert "UNSIGNED" in text
            assert "wrong answers: 61 of 64 golden samples differ" in text
            await scene.press("escape")
            assert "canary r0" in scene.text

    asyncio.run(play())


@pytest.mark.parametrize(
    ("state", "shown", "hidden"),
    [("running", ("p Pause", "a Abort", "b Roll back"), ("s Start", "r Resume")),
     ("succeeded", ("b Roll back",), ("s Start", "p Pause", "r Resume", "a Abort")),
     ("rolled_back", (), ("s Start", "p Pause", "r Resume", "a Abort", "b Roll back"))],
)  # fmt: skip
def test_the_line_of_keys_shows_what_is_possible_and_nothing_else(
    state: str, shown: tuple[str, ...], hidden: tuple[str, ...]
) -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1", state)), size=(100, 24)) as scene:
            for keys in ((), ("enter",)):
                await scene.press(*keys)
                await scene.ask()
                assert all(each in scene.lines[-1] for each in shown), scene.lines[-1]
                assert not any(each in scene.lines[-1] for each in hidden), scene.lines[-1]

    asyncio.run(play())


def test_the_line_of_keys_goes_with_the_cursor() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"), rollout("r0", "draft"))) as scene:
            assert "p Pause" in scene.lines[-1]
            await scene.press("down")
            assert "s Start" in scene.lines[-1]
            assert "p Pause" not in scene.lines[-1]

    asyncio.run(play())


def test_an_open_question_goes_with_the_rollout_and_closes_when_it_has_no_place_any_more() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"))) as scene:
            await scene.press("a")
            assert "1 device committed: that stays." in scene.text
            scene.fleet.rollout_list = [rollout("r1", counts=Tally(targeted=3, contacted=2, succeeded=2))]
            await scene.ask()
            assert "2 devices committed: that stays." in scene.text
            scene.fleet.rollout_list = [rollout("r1", "succeeded")]
            await scene.ask()
            assert "Abort canary r1?" not in scene.text
            assert "the question is closed: canary r1 is succeeded now" in scene.text
            assert scene.fleet.acts == []

    asyncio.run(play())


def test_what_was_said_does_not_stay_when_one_goes_to_another_page_and_back() -> None:
    async def play() -> None:
        async with stage(fleet_of(rollout("r1"))) as scene:
            await scene.press("r")
            assert "cannot resume: canary r1 is running" in scene.text
            await scene.press("4", "3")
            assert "cannot resume" not in scene.text

    asyncio.run(play())
