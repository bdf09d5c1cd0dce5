from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.hardware import cpu_list


@given(st.sets(st.integers(0, 300)))
def test_any_set_of_cpus_survives_the_kernels_form(ids: set[int]) -> None:
    assert cpu_list.parse(cpu_list.render(ids)) == sorted(ids)


def test_holes_and_blanks_are_kept_apart() -> None:
    assert cpu_list.parse("0,3-5") == [0, 3, 4, 5]
    assert cpu_list.parse("0 1 2 3") == [0, 1, 2, 3]
    assert cpu_list.render([5, 0, 4, 3]) == "0,3-5"


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "0-99999999", "1-2-3", "0x2"])
def test_what_is_no_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        cpu_list.parse(text)
