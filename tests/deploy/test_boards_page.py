"""docs/boards.md is made from the profiles."""

from __future__ import annotations

import re

import pytest

from deploy import boards_page
from deploy.boards_page import BEGIN, END, PAGE, tables, with_tables
from edge_contracts.profiles import load_profiles


def test_the_page_is_current() -> None:
    assert boards_page.main(["--check"]) == 0, "python -m deploy.boards_page"


def test_every_profile_is_on_the_page_once() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for profile in load_profiles():
        assert page.count(f"Profile `{profile.name}`,") == 1


def test_a_profile_without_a_family_is_an_error() -> None:
    import msgspec

    stranger = msgspec.structs.replace(load_profiles()[0], name="abacus")
    with pytest.raises(ValueError, match="abacus"):
        tables([stranger])


def test_text_outside_the_markers_stays() -> None:
    assert with_tables(f"a\n{BEGIN}\nold\n{END}\nb\n", "new\n") == f"a\n{BEGIN}\n\nnew\n\n{END}\nb\n"
    with pytest.raises(ValueError, match="lacks the line"):
        with_tables("no markers", "new")


def test_rows_have_as_many_cells_as_their_head() -> None:
    table: list[str] = []
    for line in [*tables(load_profiles()).splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
            continue
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table}) <= 1, table[0]
        table = []
