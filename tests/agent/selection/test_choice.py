"""Choices over stub bundles in real trial processes: every way a candidate can go wrong, and the right one taken."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from agent.errors import NoCandidate, SelectionCanceled, TrialError
from agent.selection.choice import choose, distrust
from agent.selection.request import TrialLimits
from edge_contracts.capabilities import Capabilities, RuntimeFact
from edge_contracts.evidence import ChoiceEvidence
from tests.agent.selection.conftest import Bench

FAST, SLOW = {"delay_us": 1000}, {"delay_us": 12000}
"""Far enough apart for a machine that does other things too."""


def statuses(evidence: ChoiceEvidence) -> dict[str, str]:
    return {line.variant: line.status for line in evidence.candidates}


def reasons(evidence: ChoiceEvidence) -> dict[str, str]:
    return {line.variant: line.reason or "" for line in evidence.candidates}


def test_the_fastest_right_variant_is_chosen_and_the_evidence_tells_it_all(bench: Bench) -> None:
    evidence = choose(bench.request({"slow": SLOW, "fast": FAST}), bench.tools)
    assert evidence.chosen.variant == "fast"
    assert evidence.chosen.status == "chosen"
    assert evidence.chosen.provider == "stub-cpu"
    assert evidence.chosen.runtime_version == "1.0"
    assert evidence.chosen.latency is not None
    assert 1.0 <= evidence.chosen.latency.p50_ms < 9.0
    assert evidence.chosen.accuracy is not None
    assert evidence.chosen.peak_rss_mb is not None
    assert statuses(evidence) == {"fast": "chosen", "slow": "halved"}
    assert "times as slow as fast" in reasons(evidence)["slow"]
    assert "fast" in evidence.why
    assert (evidence.baselines, evidence.ratio_vs_onnxruntime_default) == ({}, None)
    assert evidence.rounds >= 3
    assert not evidence.from_cache
    assert msgspec.json.decode(msgspec.json.encode(evidence), type=ChoiceEvidence) == evidence


MISBEHAVIOURS = {
    "wrong": ({"wrong_by": 5.0}, "refused", "agreement"),
    "error": ({"error_at": "load"}, "refused", "told to fail"),
    "falls-back": ({"fall_back_to": "slow-cpu"}, "refused", "runs on slow-cpu"),
    "crash-at-load": ({"crash_at": "load"}, "quarantined", "SIGILL"),
    "crash-at-run": ({"crash_at": "run", "signal": 11}, "quarantined", "SIGSEGV"),
    "hang": ({"hang_at": "run"}, "quarantined", "hung"),
    "crash-later": ({"crash_at": "run", "after_runs": 40}, "quarantined", "while running"),
}


def test_faster_ones_that_misbehave_are_passed_over_each_with_its_reason(bench: Bench) -> None:
    bad = {name: {"delay_us": 200, **behaviour} for name, (behaviour, _, _) in MISBEHAVIOURS.items()}
    tools = bench.with_tools(limits=TrialLimits(open_s=3.0, judge_s=3.0))
    evidence = choose(bench.request({"good": SLOW, **bad}, race_budget_s=20.0), tools)
    assert evidence.chosen.variant == "good"
    for name, (_, status, word) in MISBEHAVIOURS.items():
        assert (name, statuses(evidence)[name]) == (name, status)
        assert word in reasons(evidence)[name]


def test_what_is_in_quarantine_is_not_started_again(bench: Bench) -> None:
    request = bench.request({"good": SLOW, "bad": {"crash_at": "load"}})
    choose(request, bench.tools)
    started = len(list(bench.tools.work_dir.glob("trial-*.json")))
    again = replace(request, max_drop=0.02)  # another fingerprint, the same candidates
    evidence = choose(again, bench.with_tools(work_dir=bench.tools.work_dir / "second"))
    assert statuses(evidence)["bad"] == "quarantined"
    assert "seen before" in reasons(evidence)["bad"]
    assert len(list((bench.tools.work_dir / "second").glob("trial-?.json"))) < started


def test_another_runtime_version_lifts_the_quarantine(bench: Bench) -> None:
    request = bench.request({"good": SLOW, "bad": {"crash_at": "load"}})
    choose(request, bench.tools)
    newer = Capabilities(runtimes=[RuntimeFact(name="stub", version="1.1", targets=["cpu"], status="usable")])
    evidence = choose(replace(request, device=newer), bench.tools)
    assert "seen before" not in reasons(evidence)["bad"]


def test_a_damaged_bundle_is_a_golden_mismatch_with_the_evidence(bench: Bench) -> None:
    for _ in range(2):  # the second time from quarantine, with the same code
        with pytest.raises(NoCandidate, match="answers the goldens wrongly") as caught:
            choose(bench.request({"one": FAST, "two": SLOW}, damaged=True), bench.tools)
        assert caught.value.code == "golden_mismatch"
        assert caught.value.evidence is not None
        assert set(statuses(caught.value.evidence).values()) == {"refused"}
        assert all("agreement" in (line.reason or "") for line in caught.value.evidence.candidates)


def test_when_all_crash_the_code_says_so(bench: Bench) -> None:
    with pytest.raises(NoCandidate, match="crashed or hung") as caught:
        choose(bench.request({"one": {"crash_at": "load"}}), bench.tools)
    assert caught.value.code == "crash"


def test_when_nothing_fits_the_code_is_incompatible_and_nothing_is_started(bench: Bench) -> None:
    bare = Capabilities(runtimes=[RuntimeFact(name="stub", status="missing")])
    with pytest.raises(NoCandidate, match="needs the runtime stub") as caught:
        choose(bench.request({"one": FAST}, device=bare), bench.tools)
    assert caught.value.code == "incompatible"
    assert not bench.tools.work_dir.exists()


def test_wrong_and_crashing_together_are_no_single_kind(bench: Bench) -> None:
    with pytest.raises(NoCandidate) as caught:
        choose(bench.request({"one": {"error_at": "load"}, "two": {"crash_at": "load"}}), bench.tools)
    assert caught.value.code == "no_candidate"


def test_the_same_choice_comes_from_the_cache(bench: Bench) -> None:
    request = bench.request({"slow": SLOW, "fast": FAST})
    first = choose(request, bench.tools)
    second = choose(request, bench.with_tools(work_dir=bench.tools.work_dir / "second"))
    assert second.from_cache
    assert msgspec.structs.replace(second, from_cache=False) == first
    assert not (bench.tools.work_dir / "second").exists()


def test_a_change_of_circumstances_makes_a_new_choice(bench: Bench) -> None:
    """Which changes count is tested with the fingerprint."""
    request = bench.request({"fast": FAST})
    choose(request, bench.tools)
    one_cpu = frozenset(sorted(os.sched_getaffinity(0))[:1])
    assert not choose(replace(request, affinity=one_cpu), bench.tools).from_cache


def test_a_choice_that_failed_while_it_served_is_not_made_again(bench: Bench) -> None:
    request = bench.request({"slow": SLOW, "fast": FAST})
    first = choose(request, bench.tools)
    distrust(first, request, bench.tools.cache_dir, "crashed three times within an hour")
    second = choose(request, bench.tools)
    assert second.chosen.variant == "slow"
    assert "crashed three times" in reasons(second)["fast"]


def test_a_cached_choice_that_is_in_quarantine_by_now_is_not_taken(bench: Bench) -> None:
    request = bench.request({"slow": SLOW, "fast": FAST})
    first = choose(request, bench.tools)
    kept = (bench.tools.cache_dir / "choices" / f"{first.fingerprint}.json").read_bytes()
    distrust(first, request, bench.tools.cache_dir, "crashed")
    (bench.tools.cache_dir / "choices" / f"{first.fingerprint}.json").write_bytes(kept)
    assert choose(request, bench.tools).chosen.variant == "slow"


def test_a_disk_that_takes_nothing_is_no_evidence_against_a_candidate(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "full").write_text("a file where the folder should be")
    with pytest.raises(TrialError, match="ended from outside") as caught:
        choose(bench.request({"v": FAST}), bench.with_tools(work_dir=tmp_path / "full" / "work"))
    assert not caught.value.is_evidence


def test_where_threads_help_they_are_used(bench: Bench) -> None:
    request = bench.request({"scales": {"delay_us": 60000, "scales_to": 4}}, budget_cpus=4.0, race_budget_s=3.0)
    evidence = choose(request, bench.tools)
    assert evidence.chosen.options["threads"] == 4


def test_a_short_budget_still_gives_a_valid_choice_and_says_so(bench: Bench) -> None:
    behaviours = {f"v{number}": {"delay_us": 1000 + number} for number in range(6)}
    evidence = choose(bench.request(behaviours, race_budget_s=0.2), bench.tools)
    assert evidence.chosen.latency is not None
    assert "best of what was measured" in evidence.why
    assert "not tried" in " ".join(reasons(evidence).values())


def test_more_time_than_an_undecided_race_had_makes_a_new_one(bench: Bench) -> None:
    behaviours = {f"v{number}": {"delay_us": 1000 + number} for number in range(6)}
    request = bench.request(behaviours, race_budget_s=0.2)
    choose(request, bench.tools)
    assert choose(request, bench.tools).from_cache
    assert not choose(replace(request, race_budget_s=2.0), bench.tools).from_cache


def test_with_room_for_one_trial_only_rounds_open_sessions_anew(bench: Bench) -> None:
    evidence = choose(
        bench.request({"slow": SLOW, "fast": FAST}, race_budget_s=3.0), bench.with_tools(available_mb=lambda: 120)
    )
    assert evidence.chosen.variant == "fast"
    assert evidence.rounds >= 3


def test_the_memory_objective_takes_the_leanest_even_if_slower(bench: Bench) -> None:
    request = bench.request({"fat": {"load_mb": 60, **FAST}, "lean": SLOW}, objective="memory")
    evidence = choose(request, bench.tools)
    assert evidence.chosen.variant == "lean"
    assert "least memory" in evidence.why


def test_for_throughput_several_samples_at_once_may_win(bench: Bench) -> None:
    evidence = choose(bench.request({"v": {"delay_us": 8000}}, objective="throughput", race_budget_s=20.0), bench.tools)
    assert evidence.chosen.options["batch"] == 16


def test_a_cancel_stops_it_and_leaves_neither_process_nor_quarantine(bench: Bench) -> None:
    request = bench.request({"hangs": {"hang_at": "load"}})
    calls = iter(range(1000))
    tools = bench.with_tools(is_canceled=lambda: next(calls) > 5)
    with pytest.raises(SelectionCanceled):
        choose(request, tools)
    assert b"hang" not in (tools.cache_dir / "quarantine.json").read_bytes()


def test_an_unknown_objective_is_named(bench: Bench) -> None:
    with pytest.raises(ValueError, match="beauty"):
        choose(bench.request({"fast": FAST}, objective="beauty"), bench.tools)


def test_a_trial_that_others_end_is_no_evidence(bench: Bench) -> None:
    """The candidate sends SIGTERM to itself, as a service manager would at shutdown."""
    request = bench.request({"good": FAST, "ended": {"crash_at": "load", "signal": int(signal.SIGTERM)}})
    evidence = choose(request, bench.tools)
    assert statuses(evidence)["ended"] == "refused"
    assert "from outside" in reasons(evidence)["ended"]
    assert not choose(request, bench.tools).from_cache


def test_trials_get_a_folder_for_compiled_models_of_their_own(bench: Bench, tmp_path: Path) -> None:
    choose(bench.request({"fast": FAST}), bench.tools)
    written = (bench.tools.work_dir / "trial-1.json").read_bytes()
    assert str(tmp_path / "cache" / "compiled").encode() in written
