"""Writes the tables of docs/boards.md from firmware_profiles and deploy/board_runtime.py.

python -m deploy.boards_page            write them
python -m deploy.boards_page --check    exit 1 when they are not current
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.board_runtime import WHEELS, WHEELS_SOURCE, Wheel
from edge_contracts.profiles import Advice, Install, Profile, RuntimeAdvice, load_profiles

PAGE = Path(__file__).resolve().parent.parent / "docs" / "boards.md"
BEGIN = "<!-- tables: python -m deploy.boards_page -->"
END = "<!-- end of tables -->"
FAMILIES = (
    ("Raspberry Pi", ("raspberry-pi",)),
    ("NVIDIA Jetson", ("jetson",)),
    ("Intel and AMD", ("intel", "amd")),
    ("Ascend", ("atlas",)),
    ("Other ARM boards", ("coral", "imx", "odroid", "rk", "rock")),
    ("Any other board", ("generic",)),
)


def tables(profiles: Sequence[Profile]) -> str:
    """The generated part, without its markers. Every profile is in it exactly once."""
    parts = ["## Wheels", "", *_wheel_table(), ""]
    left = list(profiles)
    for title, prefixes in FAMILIES:
        family = [profile for profile in left if profile.name.startswith(prefixes)]
        left = [profile for profile in left if profile not in family]
        parts += [f"## {title}", ""]
        for profile in family:
            parts += [*_board(profile), ""]
    if left:
        raise ValueError(f"no family in FAMILIES for {', '.join(profile.name for profile in left)}")
    return "\n".join(parts).rstrip() + "\n"


def with_tables(page: str, text: str) -> str:
    """``page`` with ``text`` between its markers. Raises ValueError without them."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} lacks the line {BEGIN!r} or {END!r}")
    return f"{head}{BEGIN}\n\n{text}\n{END}{tail}"


def _wheel_table() -> Iterable[str]:
    yield f"What pip finds for Python 3.10 and newer, each runtime's newest release (source: {WHEELS_SOURCE}):"
    yield ""
    yield "| runtime | extra | package | architecture | glibc from | Python |"
    yield "|---|---|---|---|---|---|"
    for wheel in WHEELS:
        yield (
            f"| {wheel.runtime} | `{wheel.extra}` | {wheel.package} | {wheel.arch} "
            f"| {wheel.glibc[0]}.{wheel.glibc[1]} | {_pythons(wheel)} |"
        )


def _pythons(wheel: Wheel) -> str:
    if wheel.python_below is None:
        return "3.10 or newer"
    return f"3.10 to {wheel.python_below[0]}.{wheel.python_below[1] - 1}"


def _board(profile: Profile) -> Iterable[str]:
    chip = f", {profile.soc}" if profile.soc else ""
    yield f"### {profile.title}"
    yield ""
    yield f"Profile `{profile.name}`, {profile.arch}{chip}."
    yield ""
    yield "| runtime | on | precision | | why | source |"
    yield "|---|---|---|---|---|---|"
    yield from (_advice(advice) for advice in profile.runtimes)
    yield ""
    yield from (_install(number, install) for number, install in enumerate(profile.install, 1))
    for minimum in profile.minimum:
        yield f"- Needs {minimum.what} {minimum.version} or newer: {minimum.reason} ({minimum.source})."


def _advice(advice: RuntimeAdvice) -> str:
    verb = "try" if advice.advice is Advice.TRY else "**avoid**"
    cells = (advice.name, advice.target, advice.precision or "any", verb, advice.reason, advice.source)
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _install(number: int, install: Install) -> str:
    runtimes = ", ".join(install.runtimes) or "none"
    how = f"{install.method.value}, Python {install.python}: {install.how}"
    return f"{number}. {how}. Runtimes on this way: {runtimes} ({install.source})."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(argv: Sequence[str]) -> int:
    """See the top of this file."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = with_tables(page, tables(load_profiles()))
    if "--check" in argv:
        if page != wanted:
            sys.stderr.write(f"{PAGE.name} is not current: python -m deploy.boards_page\n")
            return 1
        return 0
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
