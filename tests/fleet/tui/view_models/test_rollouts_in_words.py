"""Rollouts, waves, verbs and bundles in words."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from edge_contracts.evidence import CandidateEvidence, Latency
from fleet.domain.wave import Denominator, Tally, WavePolicy
from fleet.tui.glyphs import ASCII, UNICODE
from fleet.tui.view_models import bundle_rows, rollout_devices, rollout_rows
from fleet.tui.view_models.bars import portions, tally_bar
from fleet.tui.view_models.choice import status_text
from fleet.tui.view_models.rollout_head import head_lines, thresholds, wave_lines
from fleet.tui.view_models.rollout_rows import Rollout, cells, state_mark, state_tone, why_text, with_signature
from fleet.tui.view_models.spans import Tone, plain_text
from fleet.tui.view_models.verbs import VERBS, objection, question_lines, verb
from tests.simulators.fleet_client import NOW_MS, bundle, failed_rollout, rollout, wave


@given(st.lists(st.integers(0, 10_000), min_size=4, max_size=4), st.integers(0, 80))
def test_a_bar_is_as_long_as_it_should_be_and_hides_nothing(counts: list[int], width: int) -> None:
    parts = portions(counts, width)
    if sum(counts) and width:
        assert sum(parts) == width
        if width >= 4:
            assert all((part > 0) == (count > 0) for part, count in zip(parts, counts, strict=True))


def test_one_failure_among_a_thousand_is_seen_in_the_bar() -> None:
    bar = tally_bar(Tally(targeted=1000, succeeded=999, failed=1), 10, ASCII)
    assert plain_text(bar) == "#########x"


@given(st.integers(20, 200))
def test_the_head_of_a_rollout_fits_its_width(width: int) -> None:
    for shown in (Rollout(failed_rollout(), True), Rollout(rollout("r1"), False)):
        assert all(cell_len(plain_text(line)) <= max(width, 60) for line in head_lines(shown, width, NOW_MS, UNICODE))


def test_thresholds_are_told_with_their_exact_comparisons_and_denominator() -> None:
    policy = WavePolicy(success_threshold_pct=90, error_threshold_pct=5, denominator=Denominator.CONTACTED, soak_s=120)
    view = msgspec.structs.replace(wave(1, "running", targeted=10, contacted=4, succeeded=3, failed=1), policy=policy)
    assert thresholds(view, ASCII) == (
        "ok 75 % (needs >= 90 %) - failed 25 % (allows <= 5 %) - of 4 contacted - soak 2 min"
    )


def test_a_failed_wave_is_red_and_tells_why_unless_the_rollout_told_it() -> None:
    view = wave(1, "failed", "1 of 1 failed", targeted=1, failed=1)
    told = [plain_text(line) for line in wave_lines(view, 80, UNICODE)]
    assert any("1 of 1 failed" in line for line in told)
    known = [plain_text(line) for line in wave_lines(view, 80, UNICODE, is_why_known=True)]
    assert not any("1 of 1 failed" in line for line in known)
    assert wave_lines(view, 80, UNICODE)[0][1].tone is Tone.BAD


@pytest.mark.parametrize(
    ("view", "tone"),
    [(rollout("r"), Tone.BUSY), (failed_rollout(), Tone.BAD), (rollout("r", "aborted"), Tone.BAD),
     (rollout("r", "succeeded"), Tone.GOOD), (rollout("r", "paused"), Tone.BUSY), (rollout("r", "draft"), Tone.FAINT)],
)  # fmt: skip
def test_red_means_failed_or_stopped_for_good(view: object, tone: Tone) -> None:
    assert state_tone(view) is tone  # type: ignore[arg-type]


def test_a_running_rollout_tells_where_it_is_and_a_stopped_one_why() -> None:
    assert why_text(rollout("r", why="started by the operator")) == "wave 2 of 2 running"
    assert why_text(rollout("r", awaiting_late=True)) == "waiting for late devices"
    assert why_text(failed_rollout()).startswith("wave 1: 1 of 1 targeted devices failed")


def test_the_registry_decides_whether_a_bundle_is_unsigned_not_what_the_rollout_puts_up_with() -> None:
    view = rollout("r", allow_unsigned=True)
    (shown,) = with_signature([view], [bundle("1.1.0", signed=True)])
    assert not shown.unsigned
    assert cells(shown, NOW_MS, UNICODE)[1].tone is not Tone.BAD
    (shown,) = with_signature([view], [bundle("1.1.0", signed=False)])
    assert cells(shown, NOW_MS, UNICODE)[1] == ("!digits 1.1.0", Tone.BAD)
    (shown,) = with_signature([view], [])
    assert shown.unsigned


def test_failed_devices_come_first_and_waiting_ones_tell_what_they_wait_for() -> None:
    rows = rollout_devices.in_order(rollout("r1").devices + failed_rollout().devices[:1])
    assert [row.state for row in rows] == ["rolled_back", "trial", "committed", "waiting"]
    assert rollout_devices.reason_text(rows[-1]) == "offline"


def test_two_attempts_of_one_device_are_two_rows() -> None:
    first = rollout("r1").devices[0]
    again = msgspec.structs.replace(first, deployment="r1-2", attempt=2)
    listing = rollout_devices.listing([first, again], None, NOW_MS, UNICODE)
    assert len(set(listing.keys)) == 2
    assert listing.cells_at(1)[-1].text == "attempt 2"


@pytest.mark.parametrize("state", ["draft", "running", "paused", "rolling_back", "succeeded", "aborted", "rolled_back"])
def test_a_verb_is_possible_exactly_when_the_server_says_so(state: str) -> None:
    view = rollout("r", state)
    for each in VERBS:
        why_not = objection(each, view)
        assert (why_not is None) == (each.name in view.verbs)
        assert why_not is None or view.name in why_not


def test_a_confirmation_counts_the_devices_it_concerns() -> None:
    view = rollout("r1", counts=Tally(targeted=1200, succeeded=1000, failed=3, in_flight=1))
    text = "\n".join(plain_text(line) for line in question_lines(verb("abort"), Rollout(view, False), 80))
    assert "197 devices not at the end" in text
    assert "1,000 devices committed: that stays." in text
    text = "\n".join(plain_text(line) for line in question_lines(verb("resume"), Rollout(failed_rollout(), True), 80))
    assert "You accept the failures so far (1 device)" in text
    assert "UNSIGNED" in text


def test_a_bundle_tells_how_many_devices_serve_it_and_shouts_when_unsigned() -> None:
    answer = bundle_rows.BundlesAnswer([bundle("1.1.0", signed=False)], [])
    row = bundle_rows.listing(answer, NOW_MS).cells_at(0)
    assert row[2] == ("UNSIGNED", Tone.BAD)
    assert row[3].text == "0"


def test_paused_by_the_operator_is_marked_otherwise_than_running() -> None:
    marks = [state_mark(view, UNICODE) for view in (rollout("r"), rollout("r", "paused"), failed_rollout())]
    assert len(set(marks)) == 3


def test_two_rollouts_of_one_name_show_their_ids() -> None:
    twins = [Rollout(rollout(key, name="digits 1.1.0"), False) for key in ("r1", "r2")]
    alone = Rollout(rollout("r3", name="other"), False)
    names = [rollout_rows.listing([*twins, alone], NOW_MS, UNICODE).cells_at(row)[0].text for row in range(3)]
    assert names == ["digits 1.1.0 r1", "digits 1.1.0 r2", "other"]


def test_a_device_that_went_back_is_one_row_in_plain_words() -> None:
    first = rollout("r1").devices[0]
    back = msgspec.structs.replace(first, deployment="r1-1-back", kind="back")
    listing = rollout_devices.listing([first, back], None, NOW_MS, UNICODE)
    assert len(listing.keys) == 1
    assert listing.cells_at(0)[3].text == "went back"


def test_a_wave_whose_devices_all_left_does_not_count_nothing_of_nothing() -> None:
    text = plain_text(wave_lines(wave(1, "rolled_back", withdrawn=2), 80, UNICODE)[0])
    assert "rolled back" in text
    assert "2 devices left it" in text
    assert "0/0" not in text


def test_what_was_not_tried_is_told_apart_from_what_was_dropped() -> None:
    line = CandidateEvidence(name="n", variant="v", runtime="r", precision="p", status="halved")
    assert status_text(line) == "not tried"
    assert status_text(msgspec.structs.replace(line, latency=Latency(p50_ms=1.0, p90_ms=1.0))) == "dropped"
