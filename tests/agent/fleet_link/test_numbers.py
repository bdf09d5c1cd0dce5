from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.checked_file import CheckedFile
from agent.disk import RealDisk
from agent.fleet_link.done_commands import MAX_REMEMBERED, DoneCommands
from agent.fleet_link.numbers import Counter
from tests.simulators.durable_disk import CutDisk, PowerCut
from tests.simulators.quick_folder import quick_folder


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_number_is_never_used_twice_over_restarts(uses: list[int]) -> None:
    with quick_folder() as folder:
        seen: list[int] = []
        for count in uses:
            counter = Counter(CheckedFile(folder / "n", RealDisk()), int)
            seen += [counter.advance() for _ in range(count)]
        assert seen == sorted(set(seen))


@pytest.mark.parametrize("torn", ["before", "middle", "after"])
def test_a_power_cut_repeats_no_number(tmp_path: Path, torn: str) -> None:
    seen: list[int] = []
    for cut_at in range(1, 8):
        counter = Counter(CheckedFile(tmp_path / "n", CutDisk(cut_at, torn)), int)
        with pytest.raises(PowerCut):
            use_up(counter, seen)
    assert seen == sorted(set(seen))


def test_counting_begins_at_the_floor_when_nothing_is_stored(tmp_path: Path) -> None:
    assert Counter(CheckedFile(tmp_path / "n", RealDisk()), lambda: 1000).advance() == 1001
    assert Counter(CheckedFile(tmp_path / "n", RealDisk()), lambda: 500).advance() > 1001


def use_up(counter: Counter, seen: list[int]) -> None:
    for _ in range(200):
        seen.append(counter.advance())


def test_a_command_is_begun_once_also_after_a_restart(tmp_path: Path) -> None:
    file = CheckedFile(tmp_path / "commands", RealDisk())
    assert DoneCommands(file).begin("a", 100, now_ms=50)
    assert not DoneCommands(file).begin("a", 100, now_ms=50)
    assert DoneCommands(file).begin("b", 100, now_ms=50)


def test_a_command_whose_note_is_cut_off_is_not_done_twice(tmp_path: Path) -> None:
    for torn in ("before", "middle", "after"):
        done = 0
        file = CheckedFile(tmp_path / torn, CutDisk(1, torn))
        with pytest.raises(PowerCut):
            done += DoneCommands(file).begin("a", 100, now_ms=50)
        again = DoneCommands(CheckedFile(tmp_path / torn, RealDisk()))
        done += again.begin("a", 100, now_ms=50)
        assert done <= 1
        assert not again.begin("a", 100, now_ms=50)


def test_expired_commands_are_forgotten_and_the_number_is_bounded(tmp_path: Path) -> None:
    file = CheckedFile(tmp_path / "commands", RealDisk())
    done = DoneCommands(file)
    assert done.begin("old", 100, now_ms=50)
    for number in range(MAX_REMEMBERED + 5):
        assert done.begin(f"c{number}", 10_000, now_ms=5_000)
    assert len((file.read() or b"").split(b",")) == MAX_REMEMBERED
