from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fleet.domain.wave import Denominator, Tally, Verdict, WavePolicy, check_policy, judge, split, wave_size
from fleet.errors import InvalidRollout


def tally(targeted: int, *, succeeded: int = 0, failed: int = 0, contacted: int | None = None) -> Tally:
    ended = succeeded + failed
    return Tally(
        targeted=targeted, contacted=ended if contacted is None else contacted, succeeded=succeeded, failed=failed
    )  # fmt: skip


def verdict(policy: WavePolicy, counts: Tally) -> Verdict:
    return judge(policy, counts)[0]


def test_success_is_reached_at_exactly_the_threshold() -> None:
    policy = WavePolicy(success_threshold_pct=80.0, error_threshold_pct=100.0)
    assert verdict(policy, tally(10, succeeded=8)) is Verdict.SUCCEEDED
    assert verdict(policy, tally(10, succeeded=7)) is Verdict.UNDECIDED


def test_an_error_share_of_exactly_the_threshold_is_no_failure_and_one_more_is() -> None:
    policy = WavePolicy(error_threshold_pct=20.0)
    assert verdict(policy, tally(10, failed=2)) is Verdict.UNDECIDED
    assert verdict(policy, tally(10, failed=3)) is Verdict.FAILED


def test_a_third_of_three_is_not_lost_to_rounding() -> None:
    policy = WavePolicy(success_threshold_pct=100.0, error_threshold_pct=0.0)
    assert verdict(policy, tally(3, succeeded=3)) is Verdict.SUCCEEDED


def test_one_failure_of_one_report_in_a_wave_of_a_hundred_gives_no_verdict_below_the_minimum_sample() -> None:
    policy = WavePolicy(error_threshold_pct=10.0, min_executed=5, denominator=Denominator.CONTACTED)
    assert verdict(policy, tally(100, failed=1)) is Verdict.UNDECIDED
    assert verdict(policy, tally(100, succeeded=4, failed=1)) is Verdict.FAILED


def test_a_wave_of_one_is_judged_on_its_one_whatever_the_minimum_sample() -> None:
    policy = WavePolicy(min_executed=5)
    assert verdict(policy, tally(1, failed=1)) is Verdict.FAILED
    assert verdict(policy, tally(1, succeeded=1)) is Verdict.SUCCEEDED


def test_the_denominator_contacted_judges_those_that_answered() -> None:
    targeted = WavePolicy(success_threshold_pct=90.0)
    contacted = WavePolicy(success_threshold_pct=90.0, denominator=Denominator.CONTACTED)
    counts = tally(10, succeeded=5)
    assert verdict(targeted, counts) is Verdict.UNDECIDED
    assert verdict(contacted, counts) is Verdict.SUCCEEDED
    assert verdict(contacted, tally(10, succeeded=5, contacted=8)) is Verdict.UNDECIDED


def test_a_wave_without_any_result_is_no_success_even_at_threshold_zero() -> None:
    policy = WavePolicy(success_threshold_pct=0.0, min_executed=0)
    assert judge(policy, tally(0)) == (Verdict.NOTHING_EXECUTED, judge(policy, tally(0))[1])
    assert "nothing executed" in judge(policy, tally(0))[1]
    assert verdict(policy, tally(5)) is Verdict.UNDECIDED


def test_a_settled_wave_below_its_success_threshold_has_failed_and_says_by_how_much() -> None:
    policy = WavePolicy(success_threshold_pct=90.0, error_threshold_pct=50.0)
    found, why = judge(policy, tally(10, succeeded=8, failed=2))
    assert found is Verdict.FAILED
    assert why == "only 8 of 10 targeted devices succeeded (80 %, less than 90 %)"


@given(
    st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.floats(0, 100), st.floats(0, 100),
    st.integers(0, 60),
    st.sampled_from(Denominator),
)  # fmt: skip
def test_a_settled_wave_always_has_a_verdict(
    succeeded: int, failed: int, waiting: int, success: float, error: float, minimum: int, denominator: Denominator
) -> None:
    policy = WavePolicy(
        success_threshold_pct=success, error_threshold_pct=error, min_executed=minimum, denominator=denominator
    )  # fmt: skip
    settled = judge(policy, tally(succeeded + failed, succeeded=succeeded, failed=failed))[0]
    assert settled is not Verdict.UNDECIDED
    early = judge(policy, tally(succeeded + failed + waiting, succeeded=succeeded, failed=failed))[0]
    if waiting and succeeded + failed < minimum:
        assert early is Verdict.UNDECIDED


@given(st.lists(st.sampled_from(["1", "3", "10%", "50%", "100%"]), min_size=1, max_size=5), st.integers(0, 200))
def test_waves_never_take_more_devices_than_there_are_and_a_last_100_percent_takes_all(
    sizes: list[str], targets: int
) -> None:
    counts = split(sizes, targets)
    assert sum(counts) <= targets
    assert all(count >= 0 for count in counts)
    assert sum(split([*sizes, "100%"], targets)) == targets


def test_a_share_is_rounded_up_so_that_one_device_in_three_is_found() -> None:
    assert split(["1%", "50%", "100%"], 3) == [1, 2, 0]
    assert wave_size("50%", 5) == 3


@pytest.mark.parametrize("size", ["", "0", "0%", "-1", "101%", "1.5", "half", "1 %", "99999999"])
def test_a_size_that_is_none_is_refused_with_the_forms_that_are(size: str) -> None:
    with pytest.raises(InvalidRollout, match='neither a count like "1" nor a share like "50%"'):
        wave_size(size, 10)


@pytest.mark.parametrize(
    ("field", "value"),
    [("success_threshold_pct", 101.0), ("error_threshold_pct", -1.0), ("soak_s", float("nan")),
     ("straggler_after_s", -1.0), ("min_executed", -1), ("success_threshold_pct", float("nan"))],
)  # fmt: skip
def test_a_policy_out_of_range_is_refused_by_field(field: str, value: float) -> None:
    with pytest.raises(InvalidRollout) as refused:
        check_policy(WavePolicy(**{field: value}), "waves[0]")
    assert refused.value.where == f"waves[0].{field}"
