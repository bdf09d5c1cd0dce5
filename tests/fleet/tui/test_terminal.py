"""Which terminal can show what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.tui.glyphs import ASCII, UNICODE, glyphs_for
from fleet.tui.line_filters import to_ascii
from fleet.tui.terminal import is_too_small, starting_environment, unusable, wants_no_colours


@pytest.mark.parametrize(
    ("environ", "is_utf8"),
    [
        ({}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "POSIX"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "en_US"}, False),
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "C.utf8"}, True),
        ({"LANG": "ca_ES.UTF-8@valencia"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": ""}, True),
    ],
)
def test_the_locale_decides_over_marks_in_posix_order(environ: dict[str, str], is_utf8: bool) -> None:
    assert glyphs_for(environ) is (UNICODE if is_utf8 else ASCII)


@pytest.mark.parametrize(("value", "wanted"), [(None, False), ("", False), ("1", True), ("0", True)])
def test_no_color_counts_when_it_is_not_empty(value: str | None, wanted: bool) -> None:
    assert wants_no_colours({} if value is None else {"NO_COLOR": value}) is wanted


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": ""}, {}])
def test_a_dumb_terminal_is_told_in_one_line(environ: dict[str, str]) -> None:
    reason = unusable(environ, is_tty=True)
    assert reason is not None
    assert "TERM" in reason
    assert "\n" not in reason


def test_a_good_terminal_is_usable() -> None:
    assert unusable({"TERM": "xterm-256color"}, is_tty=True) is None


def test_into_a_pipe_the_command_ends_with_one_line_and_status_2() -> None:
    program = "from fleet.tui.app import run; raise SystemExit(run('http://127.0.0.1:9', None))"
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env={**os.environ, "TERM": "xterm"}, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "needs a terminal" in done.stderr


def test_the_environment_at_the_start_is_read_where_the_system_tells_it(tmp_path: Path) -> None:
    told = tmp_path / "environ"
    told.write_bytes(b"LANG=C\0LC_CTYPE=\0WEIRD=\xff\0")
    assert starting_environment({"LC_CTYPE": "C.UTF-8"}, told)["LANG"] == "C"
    assert starting_environment({"LANG": "x"}, tmp_path / "absent") == {"LANG": "x"}


def test_smaller_than_40x10_is_too_small() -> None:
    assert not is_too_small(40, 10)
    assert is_too_small(39, 10)
    assert is_too_small(40, 9)


def test_what_is_left_of_unicode_becomes_ascii_of_the_same_width() -> None:
    assert to_ascii("╭─日本╮é") == "+-????+?"
