from __future__ import annotations

import re
from importlib import resources

import pytest

from edge_contracts.errors import MalformedMessage
from edge_contracts.profiles import Advice, Profile, load_profiles, parse_profile

MINIMAL = """
name = "a-board"
title = "A board"
arch = "aarch64"

[match]
model = ["^A board"]

[[runtimes]]
name = "onnxruntime"
advice = "try"
reason = "it has wheels"
source = "its list of files"

[[install]]
method = "system-python"
python = "3.11"
how = "pip"
runtimes = ["onnxruntime"]
source = "its list of files"
"""


@pytest.fixture(scope="module")
def profiles() -> list[Profile]:
    return load_profiles()


def test_there_are_at_least_twenty_boards(profiles: list[Profile]) -> None:
    assert len([profile for profile in profiles if not profile.match.any_board]) >= 20


def test_names_are_unique_and_those_of_their_files(profiles: list[Profile]) -> None:
    files = sorted(f.name for f in resources.files("firmware_profiles").iterdir() if f.name.endswith(".toml"))
    assert sorted(profile.name.replace("-", "_") + ".toml" for profile in profiles) == files
    assert len({profile.name for profile in profiles}) == len(profiles)


def test_every_profile_says_how_to_install_and_what_to_race_first(profiles: list[Profile]) -> None:
    for profile in profiles:
        assert profile.install, profile.name
        assert any(runtime.advice is Advice.TRY for runtime in profile.runtimes), profile.name


def test_no_two_profiles_claim_one_board(profiles: list[Profile]) -> None:
    claimed = [entry for profile in profiles for entry in profile.match.compatible]
    assert len(claimed) == len(set(claimed))


def test_no_reason_and_no_source_is_empty(profiles: list[Profile]) -> None:
    for profile in profiles:
        texts = [runtime.reason for runtime in profile.runtimes]
        texts += [
            item.source for item in (*profile.runtimes, *profile.install, *profile.power_modes, *profile.accelerators)
        ]
        assert all(len(text) > 3 for text in texts), profile.name


def test_a_minimal_profile_is_enough() -> None:
    assert parse_profile(MINIMAL, "a_board.toml").name == "a-board"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("title =", "titel ="), "titel"),
        (('model = ["^A board"]', 'modell = ["^A board"]'), "modell"),
        (("reason =", "because ="), "because"),
        (('source = "its list of files"\n\n[[install]]', "\n[[install]]"), "source"),
        (('"try"', '"perhaps"'), "perhaps"),
        (('"^A board"', '"("'), "no regular expression"),
        (("name =", "name"), "not TOML"),
    ],
)
def test_a_mistake_is_refused_naming_file_and_key(change: tuple[str, str], said: str) -> None:
    with pytest.raises(MalformedMessage, match=r"a_board\.toml") as refusal:
        parse_profile(MINIMAL.replace(*change, 1), "a_board.toml")
    assert said in str(refusal.value)


def test_a_figure_without_a_source_is_refused() -> None:
    with pytest.raises(MalformedMessage, match=re.escape("source")):
        parse_profile(MINIMAL + "\n[thermal]\nthrottle_c = 80.0\n", "a_board.toml")
