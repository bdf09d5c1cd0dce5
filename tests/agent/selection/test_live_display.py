from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.selection.live_display import LiveDisplay, fitted, is_wanted, picture
from agent.selection.request import RaceView

VIEW = RaceView(
    "racing", (("a t1", "racing", 1.5), ("日本語-①-👍 t2", "racing", 30.0), ("b", "refused", None)), 7, 2.5, 10.0
)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class AsciiTerminal(Terminal):
    encoding = "ascii"


@pytest.mark.parametrize(
    ("environ", "columns", "wanted"),
    [
        ({"TERM": "xterm"}, 80, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, 80, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, 80, False),
        ({"TERM": "dumb"}, 80, False),
        ({}, 80, False),
        ({"TERM": "xterm"}, 20, False),
        ({"TERM": "xterm"}, 0, False),
    ],
)
def test_it_shows_only_where_a_terminal_can_and_the_user_lets_it(
    environ: dict[str, str], columns: int, wanted: bool
) -> None:
    assert is_wanted(Terminal(), environ, columns) is wanted
    assert is_wanted(io.StringIO(), environ, columns) is False


def test_bars_grow_with_the_time() -> None:
    lines = picture(VIEW, 100, unicode=False)
    fast, slow = (line.count("#") for line in lines[1:3])
    assert 1 <= fast < slow
    assert "1.500 ms" in lines[1]
    assert "refused" in lines[3]
    assert "7.5 s left" in lines[0]


@given(st.text(max_size=60), st.integers(1, 60))
def test_fitted_text_fills_the_cells_exactly(text: str, columns: int) -> None:
    import unicodedata

    cells = sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in fitted(text, columns)
    )
    assert cells == columns


@pytest.mark.parametrize("columns", [40, 41, 60, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    for row in picture(VIEW, columns, unicode=True):
        assert fitted(row, columns).rstrip() == row


def test_an_ascii_terminal_gets_ascii_bars() -> None:
    out = AsciiTerminal()
    display = LiveDisplay(out, lambda: 80, lambda: 0.0)
    view = RaceView("racing", (("a", "racing", 1.0),), 1, 1.0, 10.0)
    display.show(view)
    assert out.getvalue().isascii()


def test_it_redraws_in_place_not_too_often_and_leaves_nothing_behind() -> None:
    out, now = Terminal(), [0.0]
    display = LiveDisplay(out, lambda: 80, lambda: now[0])
    display.show(VIEW)
    first = len(out.getvalue())
    display.show(VIEW)
    assert len(out.getvalue()) == first
    now[0] = 1.0
    display.show(VIEW)
    assert "\x1b[4F" in out.getvalue()
    display.close()
    assert out.getvalue().endswith("\x1b[4F\x1b[0J")


def test_many_candidates_are_cut_with_a_count() -> None:
    view = RaceView("opening", tuple((f"v{i}", "racing", 1.0) for i in range(30)), 1, 1.0, 0.0)
    assert picture(view, 80, unicode=True)[-1].strip() == "and 16 more"
