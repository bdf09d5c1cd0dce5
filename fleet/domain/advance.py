"""The machine of a rollout: one rule at a time turns what is known into the next small change. Pure.

``advance`` is called until it returns None; every change it returns is saved in one transaction, so a kill between two
changes loses nothing: the next call goes on from what was saved. Rules, in their order of precedence:

1. a device that left the fleet leaves the rollout        5. a wave is judged, a soak ends, a success is withdrawn
2. a state that lasted too long is timed out              6. the next wave begins; the tail comes last
3. a device that does not answer joins the tail           7. devices are asked, at most ``max_in_flight`` at once
4. a late device that never came is let go                8. the rollout, or its roll back, ends

In a paused rollout only 1 and 2 apply; in one that goes back 1, 2, 7 (without limit) and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from edge_contracts.deployment import DeploymentState
from fleet.domain.changes import Change, View, abort, end, go_back, moved, on, wave_name, with_wave
from fleet.domain.deadlines import longest_s
from fleet.domain.plain_words import count
from fleet.domain.rollout import Rollout, RolloutEvent, RolloutState, Target, TargetKind, Wave, after
from fleet.domain.tallying import latest, wave_tally
from fleet.domain.wave import DONE, OPEN, ErrorAction, SuccessAction, Tally, Verdict, WaveState, judge

BATCH = 200
"""Devices in one change at most, so that a transaction stays small."""


def advance(view: View) -> Change | None:
    """The next change, or None when there is nothing to do before something happens or time passes."""
    for rule in _RULES.get(view.rollout.state, ()):
        change = rule(view)
        if change is not None:
            return change
    return None


def command(view: View, event: RolloutEvent, why: str) -> Change:
    """An operator's verb. Raises NotAllowedNow. START expects the targets to be made already."""
    rollout = view.rollout
    after(rollout.state, event, f"rollout {rollout.id}")
    if event is RolloutEvent.RESUME:
        return Change(_forgive(view))
    if event is RolloutEvent.ABORT:
        return abort(view, why)
    if event is RolloutEvent.ROLLBACK:
        return go_back(view, None, why)
    return Change(moved(view, event, why))


def _forgive(view: View) -> Rollout:
    """Resuming accepts the failures so far: a settled wave is done with, an unsettled one goes on without them."""
    waves = []
    for position, wave in enumerate(view.rollout.all_waves):
        if wave.state is WaveState.FAILED:
            raw = wave_tally(view.targets, position)
            state = WaveState.ACCEPTED if raw.settled else WaveState.RUNNING
            why = f"accepted by the operator: {wave.why}"
            wave = msgspec.structs.replace(wave, state=state, why=why, forgiven=raw.failed)
        waves.append(wave)
    return moved(view, RolloutEvent.RESUME, None, waves=tuple(waves[:-1]), tail=waves[-1])


# --- rules -----------------------------------------------------------------------------------------------------------


def _drop_gone(view: View) -> Change | None:
    gone = [t for t in view.targets if not t.terminal and t.device in view.gone][:BATCH]
    return end(view, gone, DeploymentState.CANCELED, lambda _: "the device left the fleet")


def _time_out(view: View) -> Change | None:
    soak_s = view.rollout.policy.soak_s

    def limit_s(target: Target) -> float:
        assert target.state is not None
        return longest_s(target.state, view.rollout.deadlines_s, soak_s)

    late = [
        t
        for t in view.targets
        if t.in_flight
        and t.contacted_ms is not None
        and view.now_ms - (t.changed_ms or t.contacted_ms) > 1000 * limit_s(t)
    ][:BATCH]
    return end(
        view, late, DeploymentState.TIMED_OUT,
        lambda t: f"{t.state.value if t.state else 'waiting'} for more than {limit_s(t):g} s", "timed_out",
    )  # fmt: skip


def _to_tail(view: View) -> Change | None:
    rollout = view.rollout
    tail = len(rollout.waves)

    def is_late(target: Target) -> bool:
        if target.terminal or target.contacted_ms is not None or target.wave == tail or target.kind is TargetKind.BACK:
            return False
        wave = rollout.waves[target.wave]
        if wave.state not in OPEN or wave.opened_ms is None:
            return False
        if target.state is None and (target.device in view.online or target.device in view.busy):
            return False  # it is there and waits for its turn
        since_ms = target.asked_ms if target.asked_ms is not None else wave.opened_ms
        return view.now_ms - since_ms >= 1000 * wave.policy.straggler_after_s

    late = tuple(
        msgspec.structs.replace(t, wave=tail, straggler=True) for t in view.targets if is_late(t)
    )[:BATCH]  # fmt: skip
    return Change(rollout, late) if late else None


def _let_go(view: View) -> Change | None:
    """A tail device that is asked, online and silent is given up; one that never comes expires."""
    rollout, tail = view.rollout, view.rollout.tail
    if tail.opened_ms is None:
        return None
    waiting = [
        t
        for t in view.targets
        if t.wave == len(rollout.waves) and not t.terminal and t.contacted_ms is None and t.kind is TargetKind.INSTALL
    ]
    if view.now_ms - tail.opened_ms > 1000 * rollout.tail_expires_s:
        return end(
            view, waiting[:BATCH], DeploymentState.CANCELED, lambda _: f"absent for {rollout.tail_expires_s:g} s"
        )
    limit_ms = 1000 * tail.policy.straggler_after_s
    silent = [
        t
        for t in waiting
        if t.asked_ms is not None and t.device in view.online
        and view.now_ms - max(t.asked_ms, tail.opened_ms) > limit_ms
    ][:BATCH]  # fmt: skip
    return end(view, silent, DeploymentState.TIMED_OUT, lambda _: "online, but it does not answer", "timed_out")


def _judge(view: View) -> Change | None:
    for position, wave in enumerate(view.rollout.all_waves):
        if wave.state not in (WaveState.RUNNING, WaveState.SOAKING, WaveState.SUCCEEDED):
            continue
        counts = without_forgiven(wave_tally(view.targets, position), wave.forgiven)
        verdict, why = judge(wave.policy, counts)
        change = _apply_verdict(view, position, wave, counts, verdict, why)
        if change is not None:
            return change
    return None


def _apply_verdict(
    view: View, position: int, wave: Wave, counts: Tally, verdict: Verdict, why: str
) -> Change | None:  # fmt: skip
    is_tail = position == len(view.rollout.waves)
    if verdict is Verdict.FAILED:
        if wave.state is not WaveState.RUNNING and counts.failed == 0:
            return None  # late devices left an early success below its threshold; nothing failed
        return _fail(view, position, why)
    if wave.state is WaveState.RUNNING and verdict is Verdict.NOTHING_EXECUTED:
        if wave.forgiven or is_tail:
            state = WaveState.ACCEPTED if wave.forgiven else WaveState.SKIPPED
            return Change(with_wave(view, position, state=state, why=why, judged_ms=view.now_ms))
        rollout = with_wave(view, position, state=WaveState.FAILED, why=why, judged_ms=view.now_ms)
        return Change(moved(on(view, rollout), RolloutEvent.PAUSE, f"{wave_name(view, position)}: {why}"))
    if wave.state is WaveState.RUNNING and verdict is Verdict.SUCCEEDED:
        if wave.policy.soak_s > 0:
            return Change(with_wave(view, position, state=WaveState.SOAKING, why=why, judged_ms=view.now_ms))
        return _succeed(view, position, wave, why)
    soaked = wave.judged_ms is not None and view.now_ms - wave.judged_ms >= 1000 * wave.policy.soak_s
    if wave.state is WaveState.SOAKING and soaked:
        return _succeed(view, position, wave, wave.why or why)
    return None


def _open_next(view: View) -> Change | None:
    rollout = view.rollout
    for position, wave in enumerate(rollout.all_waves):
        if wave.state in DONE:
            continue
        if wave.state is not WaveState.PENDING:
            return None
        populated = any(t.wave == position and t.kind is TargetKind.INSTALL for t in view.targets)
        if not populated and position == len(rollout.waves):
            return None
        state = WaveState.RUNNING if populated else WaveState.SKIPPED
        why = None if populated else "no device is left for it"
        return Change(with_wave(view, position, state=state, why=why, opened_ms=view.now_ms))
    return None


def _ask(view: View) -> Change | None:
    rollout = view.rollout
    install = [t for t in view.targets if t.kind is TargetKind.INSTALL]
    flying = sum(t.in_flight and not (t.straggler and t.contacted_ms is None) for t in install)
    states = [wave.state for wave in rollout.all_waves]
    ready = [
        t
        for t in sorted(install, key=lambda t: (t.wave, t.position))
        if t.state is None and states[t.wave] in OPEN and t.device in view.online and t.device not in view.busy
    ]
    chosen = ready[: max(0, min(BATCH, rollout.max_in_flight - flying))]
    return _asking(view, chosen)


def _ask_back(view: View) -> Change | None:
    return _asking(view, [t for t in view.targets if t.state is None and t.kind is TargetKind.BACK][:BATCH])


def _asking(view: View, chosen: list[Target]) -> Change | None:
    if not chosen:
        return None
    asked, already = [], []
    for target in chosen:
        serving = view.serving.get(target.device)
        if target.kind is TargetKind.INSTALL:
            target = msgspec.structs.replace(target, previous=serving)
        target = msgspec.structs.replace(target, asked_ms=view.now_ms, changed_ms=view.now_ms)
        if target.kind is TargetKind.INSTALL and serving is not None and serving.digest == view.rollout.digest:
            already.append(
                msgspec.structs.replace(
                    target, state=DeploymentState.COMMITTED, contacted_ms=view.now_ms, reason="serves it already"
                )
            )
        else:
            asked.append(msgspec.structs.replace(target, state=DeploymentState.QUEUED))
    return Change(view.rollout, (*asked, *already), asked=tuple(asked))


def _unfinished(view: View) -> bool:
    return any(not t.terminal for t in view.targets if t.kind is TargetKind.INSTALL)


def _finish(view: View) -> Change | None:
    rollout = view.rollout
    if any(wave.state not in DONE for wave in rollout.waves) or _unfinished(view):
        return None
    if rollout.tail.state not in DONE and rollout.tail.state is not WaveState.PENDING:
        return None
    counts = [wave_tally(view.targets, position) for position in range(len(rollout.all_waves))]
    done, failed = sum(c.succeeded for c in counts), sum(c.failed for c in counts)
    left = sum(c.withdrawn for c in counts)
    why = f"{count(done, 'device')} committed"
    why += f", {failed} failed" if failed else ""
    why += f", {left} withdrawn" if left else ""
    return Change(moved(view, RolloutEvent.ALL_DONE, why))


def _finish_back(view: View) -> Change | None:
    """Devices that are away do not hold the end up: their wish is retained and meets them when they return."""
    back = [t for t in view.targets if t.kind is TargetKind.BACK]
    wait_ms = 1000 * view.rollout.tail.policy.straggler_after_s
    open_, away = [t for t in back if not t.terminal], 0
    for target in open_:
        silent = target.contacted_ms is None and target.asked_ms is not None and target.device not in view.online
        if not silent or view.now_ms - (target.asked_ms or 0) < wait_ms:
            return None
        away += 1
    rollout = view.rollout
    event = RolloutEvent.ALL_BACK if rollout.rollback_wave is None else RolloutEvent.WAVE_BACK
    failed = sum(t.failed for t in back)
    note = f"; {len(back) - failed - away} of {count(len(back), 'device')} {'is' if len(back) == 1 else 'are'} back"
    note += f", {failed} failed to go back" if failed else ""
    note += f", {away} away go back when they return" if away else ""
    return Change(moved(view, event, (rollout.why or "rolled back") + note))


Rule = Callable[[View], Change | None]
_RULES: Mapping[RolloutState, tuple[Rule, ...]] = {
    RolloutState.RUNNING: (_drop_gone, _time_out, _to_tail, _let_go, _judge, _open_next, _ask, _finish),
    RolloutState.PAUSED: (_drop_gone, _time_out),
    RolloutState.ROLLING_BACK: (_drop_gone, _time_out, _ask_back, _finish_back),
}


# --- what rules are made of ------------------------------------------------------------------------------------------


def without_forgiven(counts: Tally, forgiven: int) -> Tally:
    """The counts after ``forgiven`` failures have left them."""
    gone = min(forgiven, counts.failed)
    return msgspec.structs.replace(
        counts, targeted=counts.targeted - gone, failed=counts.failed - gone, contacted=max(0, counts.contacted - gone)
    )


def _fail(view: View, position: int, why: str) -> Change:
    wave = view.rollout.all_waves[position]
    if wave.state in (WaveState.SUCCEEDED, WaveState.SOAKING):
        why = f"{why}; its success is withdrawn"
    rollout = with_wave(view, position, state=WaveState.FAILED, why=why, judged_ms=view.now_ms)
    view = on(view, rollout)
    why = f"{wave_name(view, position)}: {why}{_example(view, position)}"
    action = wave.policy.error_action
    if action is ErrorAction.PAUSE:
        return Change(moved(view, RolloutEvent.PAUSE, why))
    if action is ErrorAction.ABORT:
        return abort(view, why)
    return go_back(view, position if action is ErrorAction.ROLLBACK_WAVE else None, why)


def _example(view: View, position: int) -> str:
    """The latest failure of the wave, in the device's own words."""
    failed = [t for t in latest(view.targets) if t.wave == position and t.failed]
    if not failed:
        return ""
    last = max(failed, key=lambda target: target.changed_ms or 0)
    return f"; {last.device}: {(last.regressed or last.reason or last.state.value if last.state else '')[:300]}"


def _succeed(view: View, position: int, wave: Wave, why: str) -> Change:
    rollout = with_wave(view, position, state=WaveState.SUCCEEDED, why=why, judged_ms=view.now_ms)
    if wave.policy.success_action is SuccessAction.NEXT:
        return Change(rollout)
    why = f"{wave_name(view, position)} succeeded and its success_action is pause: resume to go on"
    return Change(moved(on(view, rollout), RolloutEvent.PAUSE, why))
