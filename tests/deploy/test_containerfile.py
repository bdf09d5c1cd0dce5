"""The container file's form; no engine builds it here."""

from __future__ import annotations

import json
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FILE = REPOSITORY / "deploy" / "container" / "Containerfile"
INSTRUCTIONS = {
    "ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
    "ENTRYPOINT", "CMD",
}  # fmt: skip


def instructions() -> list[tuple[str, str]]:
    """(instruction, rest) with continued lines joined, comments left out."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines()]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    start = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return found[start:]


def test_every_line_is_an_instruction() -> None:
    assert {word for word, _ in instructions()} <= INSTRUCTIONS


def test_what_is_copied_is_in_the_checkout_and_is_all_that_the_wheel_is_made_of() -> None:
    copied = {name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]}
    assert all((REPOSITORY / name).exists() for name in copied)
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    packages = re.search(r"packages = \[(.*?)\]", project[project.index("targets.wheel") :], flags=re.DOTALL)
    assert packages is not None
    assert set(re.findall(r'"(\w+)"', packages[1])) <= copied


def test_it_is_not_root_and_serves_where_a_container_must() -> None:
    stage = dict(last_stage())
    user = stage["USER"].split(":")[0]
    assert user.isdecimal()
    assert int(user) > 0
    assert "MINDEDGE_AGENT_HOST=0.0.0.0" in stage["ENV"]


def test_the_health_check_asks_the_data_plane() -> None:
    stage = dict(last_stage())
    command = json.loads(stage["HEALTHCHECK"].partition(" CMD ")[2])
    compile(command[2], "HEALTHCHECK", "exec")
    assert "/v2/health/live" in command[2]
    assert json.loads(stage["ENTRYPOINT"]) == ["mindie"]
    assert json.loads(stage["CMD"]) == ["run"]


def test_the_data_folder_is_made_before_it_becomes_a_volume() -> None:
    words = [word for word, _ in last_stage()]
    assert words.index("RUN") < words.index("VOLUME")
