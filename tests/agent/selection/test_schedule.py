from __future__ import annotations

from agent.selection.candidates import Entrant
from agent.selection.schedule import expansion, schedule
from agent.selection.statistics import RatioBounds
from edge_contracts.bundle import Variant
from tests.simulators.bundle_factory import affine_spec


def entrant(name: str, rank: int, runtime: str = "tflite") -> Entrant:
    variant = Variant(f"sha256:{name}", affine_spec(name, runtime, "m"), [])
    return Entrant(variant, {"threads": rank + 1}, rank)


def bounds(ratio: float) -> RatioBounds:
    return RatioBounds(ratio * 0.95, ratio, ratio * 1.05)


def test_the_last_fifth_is_kept_for_the_final_run() -> None:
    times = schedule(100.0, 10.0)
    assert times.open_until < times.race_until == 108.0 < times.end == 110.0


def test_options_of_near_groups_come_first_those_out_of_reach_are_told_why_not() -> None:
    near, far = entrant("near", 1), entrant("far", 1)
    plan = expansion([far, near], {near.group: bounds(1.0), far.group: bounds(5.0)}, {}, leader_us=10_000)
    assert plan.wanted == [near]
    assert plan.hopeless == [(far, "not tried: far is 5.0 times as slow as the leader")]


def test_small_models_get_their_options_tried_although_a_first_try_was_slow() -> None:
    far = entrant("far", 1)
    assert expansion([far], {far.group: bounds(5.0)}, {}, leader_us=40).wanted == [far]


def test_the_plain_onnx_file_is_tuned_for_the_baseline_however_slow() -> None:
    plain = [entrant("plain", rank, "onnxruntime") for rank in range(1, 7)]
    plan = expansion(plain, {plain[0].group: bounds(9.0)}, {}, leader_us=10_000)
    assert [e.rank for e in plan.wanted] == [1, 2, 3, 4]


def test_options_of_a_group_that_failed_are_not_tried_with_that_reason() -> None:
    broken = entrant("broken", 1)
    plan = expansion([broken], {}, {broken.group: "not tried: broken t1 was quarantined (SIGILL)"}, leader_us=1)
    assert plan.hopeless == [(broken, "not tried: broken t1 was quarantined (SIGILL)")]


def test_better_ranks_of_better_groups_first() -> None:
    a1, a5, b1 = entrant("a", 1), entrant("a", 5), entrant("b", 1)
    plan = expansion([b1, a5, a1], {a1.group: bounds(1.0), b1.group: bounds(1.2)}, {}, leader_us=10_000)
    assert plan.wanted == [a1, b1, a5]
