"""Situations and the moves they bring to mind, judgement, and what is remembered: all pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tuning import allocation, controller_state
from agent.tuning.controller import Nothing, Proposal, noticed, propose
from agent.tuning.controller_state import ControllerState, Pacing, Watch
from agent.tuning.judgement import Outcome, TrialVerdict, accepts, judge
from agent.tuning.model_tuning import (
    ARENA,
    BATCH_WINDOW,
    CPUS,
    PREPACKING,
    SPINNING,
    THREADS,
    ModelTuning,
    described,
    from_options,
    to_options,
)
from agent.tuning.moves import Goal, Limits, Move, moves
from agent.tuning.observation import ModelLoad, Observation
from agent.tuning.situation import RECENT, Situation, situation_of
from edge_contracts.latency import LatencySketch

ALL_KNOBS = frozenset({THREADS, SPINNING, ARENA, PREPACKING, CPUS, BATCH_WINDOW})
HOME = ModelTuning(4, spinning=True)
LIMITS = Limits("m", 4, 4.0, frozenset(range(4)), HOME, ALL_KNOBS, reserve_mb=100, max_window_ms=16.0)
PACING = Pacing()


def load(requests: int = 100, ms: float = 10.0, queued: int = 0) -> ModelLoad:
    sketch = LatencySketch()
    if requests:
        sketch.add(ms * 1000, requests)
    return ModelLoad(requests, queued, sketch, ms)


def seen(at_s: float, model: ModelLoad | None = None, **fields: Any) -> Observation:
    return Observation(at_s, 5.0, models={"m": model or load()}, **{"other_cpus": 0.0, **fields})


def several(
    count: int = RECENT, *, from_s: float = 5.0, model: ModelLoad | None = None, **fields: Any
) -> list[Observation]:  # fmt: skip
    return [seen(from_s + 5.0 * n, model, **fields) for n in range(count)]


def situation(history: list[Observation], before: Situation | None = None, window_ms: float = 0.0) -> Situation:
    return situation_of(history, "m", 4, 100, before, window_ms)


# situations


def test_a_moment_of_other_load_is_no_situation() -> None:
    history = [*several(2), seen(15.0, other_cpus=2.0)]
    assert situation(history).is_calm


def test_others_share_is_told_in_halves_and_is_slow_to_change() -> None:
    one = situation(several(other_cpus=0.95))
    assert one.taken_cpus == 1.0
    assert situation(several(other_cpus=1.3), one).taken_cpus == 1.0
    assert situation(several(other_cpus=0.62), one).taken_cpus == 1.0
    assert situation(several(other_cpus=1.6), one).taken_cpus == 1.5
    assert situation(several(other_cpus=0.1), one).taken_cpus == 0.0


def test_where_the_time_of_others_is_unknown_pressure_tells_and_else_the_run_queue() -> None:
    assert situation(several(other_cpus=None, pressure_pct=95.0)).taken_cpus == 1.0
    assert situation(several(other_cpus=None, group_pressure_pct=95.0)).taken_cpus == 1.0
    assert situation(several(other_cpus=None, running=5)).taken_cpus == 3.0
    assert situation(several(other_cpus=None)).is_calm


@pytest.mark.parametrize(
    ("flag", "enters", "stays", "leaves"),
    [
        ("held_back", {"held_back": 0.1}, {"held_back": 0.001}, {"held_back": 0.0}),
        ("hot", {"throttled": True}, {"temp_margin_c": 4.0}, {"temp_margin_c": 9.0, "throttled": False}),
        ("hot", {"temp_margin_c": 1.0}, {"temp_margin_c": 7.0}, {"temp_margin_c": 8.0}),
        ("memory_short", {"memory_available_mb": 90}, {"memory_available_mb": 150}, {"memory_available_mb": 210}),
        ("queueing", {"model": load(queued=3)}, {"model": load(queued=2)}, {"model": load(queued=1)}),
    ],
)
def test_each_feature_is_entered_and_left_at_different_thresholds(
    flag: str, enters: dict[str, Any], stays: dict[str, Any], leaves: dict[str, Any]
) -> None:  # fmt: skip
    entered = situation(several(**enters))
    assert getattr(entered, flag)
    assert getattr(situation(several(**stays), entered), flag)
    assert not getattr(situation(several(**leaves), entered), flag)
    assert not getattr(situation(several(**stays)) if flag != "queueing" else Situation(), flag)


def test_requests_too_rare_for_the_batch_window_are_told() -> None:
    rare = several(model=load(requests=5))
    assert situation(rare, window_ms=8.0).sparse
    assert not situation(rare, window_ms=0.0).sparse
    assert not situation(several(model=load(requests=0)), window_ms=8.0).sparse


# moves


def found(now: Situation, current: ModelTuning = HOME, limits: Limits = LIMITS, **fields: Any) -> list[Move]:
    return moves(now, seen(5.0, **fields), current, limits)


def test_under_contention_threads_fit_what_is_left_and_spinning_goes() -> None:
    first = found(Situation(taken_cpus=1.0), other_cpus=1.0)[0]
    assert first.tuning == ModelTuning(3, spinning=False)
    assert first.why == "another process holds 1.0 of 4 CPUs"


def test_a_quota_below_the_free_cpus_is_what_counts() -> None:
    limits = replace(LIMITS, budget_cpus=2.0, share=2, home=ModelTuning(2, False))
    first = found(Situation(taken_cpus=1.0), ModelTuning(2, True), limits)[0]
    assert first.tuning == ModelTuning(2, spinning=False), "3 CPUs are free, which is more than we may use"


def test_where_others_sit_on_certain_cpus_the_quiet_ones_are_tried() -> None:
    tried = found(Situation(taken_cpus=2.0), busy_by_others={0: 1.0, 1: 0.9, 2: 0.0, 3: 0.1})
    assert ModelTuning(2, spinning=False, cpus=frozenset({2, 3})) in [move.tuning for move in tried]


def test_when_the_cpus_are_free_again_selections_choice_comes_first() -> None:
    assert found(Situation(), ModelTuning(1, False))[0].tuning == HOME


def test_a_quota_that_holds_back_and_heat_want_fewer_threads() -> None:
    assert found(Situation(held_back=True), limits=replace(LIMITS, budget_cpus=2.5))[0].tuning == ModelTuning(2, False)
    hot = found(Situation(hot=True), limits=replace(LIMITS, big_cpus=frozenset({2, 3})), temp_c=84.0)
    assert hot[0].tuning == ModelTuning(2, False, cpus=frozenset({2, 3}))
    assert hot[0].why == "the device is hot (84 °C)"
    assert ModelTuning(3, False) in [move.tuning for move in hot]


def test_short_memory_gives_up_caches_and_free_memory_takes_them_back() -> None:
    short = [m for m in found(Situation(memory_short=True)) if m.goal is Goal.MEMORY]
    assert [(m.tuning.arena, m.tuning.prepacking) for m in short] == [(False, None), (None, False)]
    back = found(Situation(), HOME.but(arena=False))
    assert HOME in [move.tuning for move in back]


def test_a_queue_widens_the_batch_window_up_to_its_limit_and_rare_requests_close_it() -> None:
    def windows(now: Situation, window_ms: float) -> list[float | None]:
        tried = found(now, HOME.but(batch_window_ms=window_ms), model=load(queued=9))
        return [m.tuning.batch_window_ms for m in tried if m.goal is Goal.QUEUE]

    assert windows(Situation(queueing=True), 0.0) == [2.0]
    assert windows(Situation(queueing=True), 8.0) == [16.0]
    assert windows(Situation(queueing=True), 16.0) == []
    assert windows(Situation(sparse=True), 4.0) == [0.0]


SITUATIONS = st.builds(
    Situation, taken_cpus=st.sampled_from([0.0, 0.5, 1.0, 2.5, 8.0]), share=st.just(4), held_back=st.booleans(),
    hot=st.booleans(), memory_short=st.booleans(), queueing=st.booleans(), sparse=st.booleans(),
)  # fmt: skip
TUNINGS = st.builds(ModelTuning, st.integers(1, 8), st.sampled_from([None, True, False]), st.sampled_from([None, 2.0]))


@given(SITUATIONS, TUNINGS, TUNINGS, st.integers(1, 8), st.frozensets(st.sampled_from(sorted(ALL_KNOBS))))
def test_no_move_is_above_the_share_repeats_another_or_touches_what_is_no_knob(
    now: Situation, current: ModelTuning, home: ModelTuning, share: int, knobs: frozenset[str]
) -> None:  # fmt: skip
    limits = replace(LIMITS, share=share, home=home, knobs=knobs)
    tried = [move.tuning for move in found(now, current, limits, busy_by_others={0: 1.0})]
    assert len(set(tried)) == len(tried)
    assert current not in tried
    for tuning in tried:
        assert 1 <= tuning.threads <= (share if THREADS in knobs else current.threads)
        assert SPINNING in knobs or tuning.spinning == current.spinning
        assert CPUS in knobs or tuning.cpus == current.cpus
        assert BATCH_WINDOW in knobs or tuning.batch_window_ms == current.batch_window_ms


# proposals


def after(history: list[Observation], memory: ControllerState | None = None) -> ControllerState:
    return noticed(history, HOME, LIMITS, memory or ControllerState(), PACING)


def test_what_selection_chose_on_a_calm_machine_is_left_alone() -> None:
    memory = after(several())
    assert isinstance(propose(several(), HOME, LIMITS, memory), Nothing)


def test_more_threads_than_the_share_are_taken_back_before_anything_else() -> None:
    memory = replace(after(several()), last_change_s=15.0)
    decision = propose(several(), HOME.but(threads=6), LIMITS, memory)
    assert isinstance(decision, Proposal)
    assert (decision.move.goal, decision.move.tuning.threads) == (Goal.BUDGET, 4)


def contended() -> tuple[list[Observation], ControllerState]:
    calm = several()
    history = [*calm, *several(from_s=20.0, other_cpus=1.0)]
    return history, after(history, after(calm))


def test_contention_is_answered_with_a_proposal() -> None:
    history, memory = contended()
    assert isinstance(propose(history, HOME, LIMITS, memory), Proposal)


@pytest.mark.parametrize("reason", ["disturbed", "no requests", "floor", "watched"])
def test_nothing_is_proposed_while(reason: str) -> None:
    history, memory = contended()
    if reason == "disturbed":
        history[-2] = replace(history[-2], disturbed=True)
    elif reason == "no requests":
        history = [replace(o, models={}) for o in history]
    elif reason == "floor":
        memory = replace(memory, last_change_s=history[-1].at_s - PACING.floor_s + 1)
    else:
        memory = replace(memory, watch=Watch(HOME, Move(HOME.but(threads=1), "x"), 0.0, 1, None, 0.0))
    assert isinstance(propose(history, HOME, LIMITS, memory), Nothing)


def test_each_revert_in_a_row_doubles_the_wait() -> None:
    memory = ControllerState(situation=Situation(taken_cpus=1.0, share=4))
    waits = []
    for _ in range(4):
        memory = controller_state.reverted(memory, HOME.but(threads=1), 1000.0, PACING)
        waits.append(controller_state.wait_until_s(memory, PACING) - 1000.0)
    assert waits == [60.0, 120.0, 240.0, 480.0]
    assert controller_state.wait_until_s(controller_state.kept(memory, HOME), PACING) == 1030.0


def test_what_failed_is_not_tried_again_in_its_situation_and_only_after_a_while_when_it_comes_back() -> None:
    one = HOME.but(threads=1)
    memory = controller_state.failed(ControllerState(situation=Situation(taken_cpus=1.0)), one, 0.0, PACING)
    assert memory.is_blocked(one, 1e9), "as long as it lasts"
    again = replace(memory, episode=memory.episode + 1)
    assert again.is_blocked(one, PACING.hold_s - 1)
    assert not again.is_blocked(one, PACING.hold_s + 1)
    twice = controller_state.failed(again, one, 1000.0, PACING)
    assert replace(twice, episode=9).is_blocked(one, 1000.0 + 2 * PACING.hold_s - 1)
    assert not replace(memory, situation=Situation(taken_cpus=2.0)).is_blocked(one, 0.0)


def test_what_is_remembered_is_bounded() -> None:
    memory = ControllerState()
    for number in range(200):
        memory = replace(memory, situation=Situation(taken_cpus=float(number)))
        memory = controller_state.failed(memory, HOME, 0.0, PACING)
        memory = controller_state.kept(memory, HOME)
    assert len(memory.blocks) <= controller_state.MAX_REMEMBERED
    assert len(memory.good) <= controller_state.MAX_REMEMBERED


def test_what_was_kept_in_this_situation_before_is_tried_first() -> None:
    history, memory = contended()
    memory = replace(memory, good={memory.key: ModelTuning(1, False)})
    decision = propose(history, HOME, LIMITS, memory)
    assert isinstance(decision, Proposal)
    assert decision.move.tuning == ModelTuning(1, False)


def test_a_p95_that_grew_by_half_without_a_cause_is_worth_another_look() -> None:
    memory = after(several())
    for n in range(3):
        memory = after(several(4 + n), memory)
    assert memory.reference_p95_ms == pytest.approx(10.0, rel=0.03)
    slow = [*several(6), *several(4, from_s=35.0, model=load(ms=20.0))]
    later = after(slow, memory)
    assert (later.settled, later.episode) == (False, memory.episode + 1)
    assert isinstance(propose(slow, HOME, LIMITS, later), Proposal)


# judgement


def test_a_trial_speaks_for_a_change_only_beyond_the_noise() -> None:
    def verdict(ratio: float, high: float, **more: Any) -> TrialVerdict:
        return TrialVerdict(ratio, ratio - 0.1, high, 5.0, 8.0, **more)

    assert accepts(Goal.LATENCY, verdict(0.8, 0.95)) == (True, "in a trial p90 8.00 -> 5.00 ms")
    assert not accepts(Goal.LATENCY, verdict(0.8, 1.01))[0]
    assert not accepts(Goal.LATENCY, verdict(0.99, 0.995))[0]
    assert accepts(Goal.MEMORY, verdict(1.05, 1.3, new_mb=80, old_mb=100))[0]
    assert not accepts(Goal.MEMORY, verdict(1.05, 1.3, new_mb=100, old_mb=100))[0]
    assert accepts(Goal.LATENCY, TrialVerdict(refusal="illegal instruction")) == (False, "illegal instruction")


def judged(after_ms: float, *, requests: int = 100, before_ms: float | None = 10.0, goal: Goal = Goal.LATENCY,
           episode: int = 0, count: int = 7) -> tuple[Outcome, str]:  # fmt: skip
    history = several(count, from_s=5.0, model=load(requests, after_ms))
    memory = ControllerState(situation=Situation(), last_change_s=0.0)
    watch = Watch(HOME, Move(HOME.but(threads=1), "why", goal), 0.0, episode, before_ms, 20.0, "in a trial 8 -> 5 ms")
    return judge(history, memory, watch, "m", PACING)


def test_a_change_is_kept_when_the_live_p95_fell_and_reverted_when_it_did_not() -> None:
    assert judged(8.0) == (Outcome.KEEP, "p95 10.0 -> 8.0 ms")
    assert judged(11.0)[0] is Outcome.REVERT


def test_a_change_for_memory_may_cost_a_little() -> None:
    assert judged(10.6, goal=Goal.MEMORY)[0] is Outcome.KEEP
    assert judged(12.0, goal=Goal.MEMORY)[0] is Outcome.REVERT


def test_a_verdict_waits_for_the_floor_and_for_requests_but_not_for_ever() -> None:
    assert judged(20.0, count=3)[0] is Outcome.WAIT
    assert judged(20.0, requests=2)[0] is Outcome.WAIT
    assert judged(20.0, requests=1, count=40) == (Outcome.KEEP, "in a trial 8 -> 5 ms (too few requests to compare)")


def test_latencies_under_another_load_or_in_another_situation_do_not_compare() -> None:
    assert judged(30.0, requests=1000)[0] is Outcome.KEEP
    assert judged(30.0, episode=5)[0] is Outcome.OVERTAKEN


# options and words


def test_a_tuning_comes_out_of_options_and_goes_back_into_them() -> None:
    home = {"threads": 4, "spinning": True, "execution": "sequential", "provider": "CPUExecutionProvider"}
    tuning = from_options(home, None, 8)
    assert tuning == ModelTuning(4, spinning=True)
    assert to_options(tuning, home, ALL_KNOBS) == home
    told = to_options(tuning.but(threads=1, spinning=False, arena=False), home, frozenset({THREADS, SPINNING, ARENA}))
    assert told == {**home, "threads": 1, "spinning": False, "arena": False}


def test_options_that_a_runtime_does_not_know_are_never_given_to_it() -> None:
    told = to_options(ModelTuning(2, spinning=False, arena=False), {"threads": 4}, frozenset({THREADS}))
    assert told == {"threads": 2}


def test_threads_of_parallel_branches_count_together() -> None:
    home = {"threads": 2, "inter_threads": 2, "execution": "parallel", "spinning": False}
    assert from_options(home, None, 8).threads == 4
    assert to_options(ModelTuning(4, spinning=False), home, ALL_KNOBS) == home
    fewer = to_options(ModelTuning(1, spinning=False), home, ALL_KNOBS)
    assert fewer == {"threads": 1, "execution": "sequential", "spinning": False}


def test_a_change_is_told_in_words() -> None:
    new = ModelTuning(1, spinning=False, cpus=frozenset({2, 3}), arena=False)
    assert described(HOME, new) == "threads 4 -> 1, spinning off, arena off, on CPUs 2-3"
    assert described(new, HOME) == "threads 1 -> 4, spinning on, arena as the runtime likes, on all CPUs"


# the budget of the device

DEMANDS = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 4), min_size=1)


@given(DEMANDS, st.integers(0, 16))
def test_models_that_are_awake_share_no_more_than_the_budget(demand: dict[str, float], budget: int) -> None:
    up = allocation.awake(demand, frozenset())
    shares = allocation.allocate(demand, up, budget, {})
    assert set(shares) == set(demand)
    assert sum(shares[name] for name in up) <= max(1, budget, len(up))
    assert all(1 <= threads <= max(1, budget) for threads in shares.values())


@given(DEMANDS, st.integers(1, 16), st.floats(0.95, 1.05))
def test_a_little_more_or_less_to_do_moves_no_thread(demand: dict[str, float], budget: int, factor: float) -> None:
    up = allocation.awake(demand, frozenset())
    shares = allocation.allocate(demand, up, budget, {})
    busier = {name: cpus * (factor if index % 2 else 1 / factor) for index, (name, cpus) in enumerate(demand.items())}
    again = allocation.allocate(busier, up, budget, shares)
    assert {name: again[name] for name in up} == {name: shares[name] for name in up}


def test_a_model_falls_asleep_later_than_it_woke() -> None:
    assert allocation.awake({"a": 0.007}, frozenset()) == frozenset()
    assert allocation.awake({"a": 0.007}, frozenset({"a"})) == {"a"}
