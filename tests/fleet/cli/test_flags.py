from __future__ import annotations

import pytest

from fleet.cli.flags import in_flags


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("waves[0].size: 'x' is no size", "--wave: 'x' is no size"),
        ("waves[2].soak_s: -1", "--wave-soak-s: -1"),
        ("uses: 0 is not >= 1", "--uses: 0 is not >= 1"),
        ("waves: 99 given", "--wave: 99 given"),
        ("digest: is missing", "digest: is missing"),
        ("no rollout 'r1'", "no rollout 'r1'"),
        ("http://10.0.0.1: no answer", "http://10.0.0.1: no answer"),
    ],
)
def test_a_field_of_the_api_is_told_as_the_flag_that_sets_it(line: str, told: str) -> None:
    assert in_flags(Exception(line)) == told
