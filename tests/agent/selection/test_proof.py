"""No worse than what it replaces: the rule, and pairs of real trial processes over stub bundles."""

from __future__ import annotations

from typing import Any

import pytest

from agent.errors import BackendError, SelectionCanceled, TrialError
from agent.selection.proof import Candidate, ProofTerms, prove_no_worse, verdict
from agent.selection.statistics import RatioBounds
from edge_contracts.evidence import Latency
from edge_contracts.latency import LatencySketch
from tests.agent.selection.conftest import DEVICE, Bench

TERMS = ProofTerms(device=DEVICE, budget_cpus=1.0, pairs=15, budget_s=5.0)


def candidate(bench: Bench, behaviour: dict[str, Any] | None = None, **bundle: Any) -> Candidate:
    folder = bench.folder({"v": behaviour or {}}, **bundle)
    return Candidate(folder, "v", {"threads": 1})


def latency(p90_ms: float) -> Latency:
    return Latency(p50_ms=p90_ms, p90_ms=p90_ms, samples=500)


@pytest.mark.parametrize(
    ("low", "new_ms", "old_ms", "ok"),
    [
        (0.9, 20.0, 20.0, True),
        (1.10, 22.4, 20.0, True),  # the bound itself is allowed
        (1.11, 22.4, 20.0, False),
        (3.0, 0.25, 0.06, True),  # three times as slow, and nobody could feel it
        (3.0, 0.30, 0.06, False),
    ],
)
def test_the_rule(low: float, new_ms: float, old_ms: float, ok: bool) -> None:
    bounds = RatioBounds(low, new_ms / old_ms, 9.0)
    assert verdict(bounds, latency(new_ms), latency(old_ms), 1.10)[0] is ok


def test_the_same_speed_is_no_worse(bench: Bench) -> None:
    proof = prove_no_worse(
        candidate(bench, {"delay_us": 5000}), candidate(bench, {"delay_us": 5000}), TERMS, bench.tools
    )
    assert proof.ok, proof.text
    assert proof.pairs == 15
    assert proof.ratio_p90_lower is not None
    assert proof.ratio_p90_upper is not None
    assert proof.ratio_p90_lower <= proof.ratio_p90_upper
    assert proof.new is not None


def test_a_tenth_of_the_speed_is_slower_and_the_text_has_the_figures(bench: Bench) -> None:
    proof = prove_no_worse(
        candidate(bench, {"delay_us": 30000}), candidate(bench, {"delay_us": 3000}), TERMS, bench.tools
    )
    assert (proof.ok, proof.code) == (False, "slower")
    assert "ratio" in proof.text


def test_wrong_answers_fail_before_anything_is_compared(bench: Bench) -> None:
    proof = prove_no_worse(candidate(bench, damaged=True), candidate(bench), TERMS, bench.tools)
    assert (proof.ok, proof.code, proof.ratio_p90) == (False, "golden_mismatch", None)


def test_a_crash_of_the_new_one_fails(bench: Bench) -> None:
    proof = prove_no_worse(
        candidate(bench, {"crash_at": "run", "after_runs": 20}), candidate(bench), TERMS, bench.tools
    )
    assert (proof.ok, proof.code) == (False, "crash")
    assert "SIGILL" in proof.text


@pytest.mark.parametrize("behaviour", [{"crash_at": "load"}, {"crash_at": "run", "after_runs": 20}])
def test_an_old_one_that_does_not_run_any_more_is_nothing_to_be_worse_than(
    bench: Bench, behaviour: dict[str, Any]
) -> None:
    proof = prove_no_worse(candidate(bench), candidate(bench, behaviour), TERMS, bench.tools)
    assert proof.ok
    assert "nothing to be worse than" in proof.text


def test_an_old_one_with_other_answers_is_still_compared_by_speed(bench: Bench) -> None:
    proof = prove_no_worse(candidate(bench), candidate(bench, damaged=True), TERMS, bench.tools)
    assert proof.ok
    assert proof.ratio_p90 is not None


def test_with_room_for_one_only_the_live_engines_latency_stands_for_the_old_one(bench: Bench) -> None:
    sketch = LatencySketch()
    sketch.add(15_000.0, 1000)
    tools = bench.with_tools(available_mb=lambda: 100)
    fast = prove_no_worse(candidate(bench, {"delay_us": 900}), candidate(bench), TERMS, tools, old_latency=sketch)
    assert fast.ok, fast.text
    assert "live engine" in fast.text
    slow = prove_no_worse(candidate(bench, {"delay_us": 90000}), candidate(bench), TERMS, tools, old_latency=sketch)
    assert (slow.ok, slow.code) == (False, "slower")


def test_a_cancel_ends_it(bench: Bench) -> None:
    with pytest.raises(SelectionCanceled):
        prove_no_worse(candidate(bench), candidate(bench), TERMS, bench.with_tools(is_canceled=lambda: True))


def test_a_new_one_ended_from_outside_is_no_evidence(bench: Bench) -> None:
    with pytest.raises(TrialError) as caught:
        prove_no_worse(candidate(bench, {"crash_at": "load", "signal": 15}), candidate(bench), TERMS, bench.tools)
    assert not caught.value.is_evidence


def test_a_variant_that_the_bundle_lacks_is_named(bench: Bench) -> None:
    good = candidate(bench)
    with pytest.raises(BackendError, match="'other'"):
        prove_no_worse(Candidate(good.folder, "other", {}), good, TERMS, bench.tools)
