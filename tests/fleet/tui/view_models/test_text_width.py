"""Text in cells."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fleet.tui.glyphs import ASCII, UNICODE
from fleet.tui.view_models.spans import Span, plain_text
from fleet.tui.view_models.text_width import clean, cut, fit, paragraph, wrap

anything = st.text(max_size=60)


@given(anything, st.integers(0, 70), st.booleans())
def test_fitted_text_has_exactly_its_width_whatever_the_characters(text: str, width: int, right: bool) -> None:
    for glyphs in (UNICODE, ASCII):
        assert cell_len(fit(text, width, glyphs, right=right)) == width


@given(anything, st.integers(2, 40))
def test_wrapped_lines_are_never_too_wide_and_lose_no_word(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert lines
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(clean(text).split())


@given(anything, st.integers(20, 60), st.one_of(st.none(), st.integers(0, 10)))
def test_a_paragraph_keeps_its_width_and_its_words(text: str, width: int, hanging: int | None) -> None:
    lines = paragraph((Span("head: "),), text, width, hanging=hanging)
    assert all(cell_len(plain_text(line)) <= width for line in lines)
    assert "".join("".join(plain_text(line) for line in lines).split()) == "".join(f"head:{clean(text)}".split())


@given(anything)
def test_clean_text_is_printable(text: str) -> None:
    assert clean(text).isprintable()


def test_escape_sequences_and_bidirectional_marks_are_taken_out() -> None:
    assert clean("a\x1b[31mb\nc\u202ed") == "a [31mb cd"


def test_a_cut_ends_in_an_ellipsis_and_never_in_half_a_character() -> None:
    assert cut("raspberry-pi-4b", 8, UNICODE) == "raspber…"
    assert cut("raspberry-pi-4b", 8, ASCII) == "raspber~"
    assert cell_len(cut("日本語", 4, UNICODE)) == 4
