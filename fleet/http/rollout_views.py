"""From a rollout and its targets to what the API shows, and from a request to a rollout. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set

from fleet.domain.rollout import FINAL, VERBS, Rollout, RolloutState, Target, Wave, after
from fleet.domain.tallying import total_tally, wave_tally
from fleet.domain.wave import DONE, TAIL_POLICY, WaveState
from fleet.errors import NotAllowedNow
from fleet.http import api_types as api


def draft(request: api.RolloutRequest) -> Rollout:
    """A rollout as asked for; what only the server knows (id, digest, time) is still empty."""
    return Rollout(
        id="",
        name=request.name or "",
        model=request.bundle,
        version=request.version,
        digest="",
        selector=request.selector,
        waves=tuple(Wave(policy=policy) for policy in request.waves),
        created_ms=0,
        tail=Wave(policy=request.tail or TAIL_POLICY),
        max_in_flight=request.max_in_flight,
        policy=request.policy,
        deadlines_s=request.deadlines_s,
        tail_expires_s=request.tail_expires_s,
    )


def rollout_view(
    rollout: Rollout, targets: Sequence[Target], online: Set[str] = frozenset(), *, devices: bool = True
) -> api.RolloutView:  # fmt: skip
    """``devices`` False leaves the rows of the devices out."""
    rows = sorted(targets, key=lambda t: (t.wave, t.position, t.attempt, t.kind.value)) if devices else []
    return api.RolloutView(
        id=rollout.id,
        name=rollout.name,
        bundle=rollout.model,
        version=rollout.version,
        digest=rollout.digest,
        state=rollout.state.value,
        created_ms=rollout.created_ms,
        max_in_flight=rollout.max_in_flight,
        waves=_waves(rollout, targets),
        counts=total_tally(targets),
        verbs=verbs(rollout.state),
        why=rollout.why,
        matched=rollout.matched,
        started_ms=rollout.started_ms,
        finished_ms=rollout.finished_ms,
        awaiting_late=_awaits_only_late(rollout, targets),
        allow_unsigned=rollout.policy.allow_unsigned,
        devices=[_row(target, online) for target in rows],
    )


def verbs(state: RolloutState) -> list[str]:
    """What an operator may do now."""
    return [verb for verb in VERBS if _possible(state, verb)]


def _possible(state: RolloutState, verb: str) -> bool:
    try:
        after(state, VERBS[verb])
    except NotAllowedNow:
        return False
    return True


def _awaits_only_late(rollout: Rollout, targets: Sequence[Target]) -> bool:
    if rollout.state is not RolloutState.RUNNING or any(wave.state not in DONE for wave in rollout.waves):
        return False
    open_ = [target for target in targets if not target.terminal]
    return bool(open_) and all(target.straggler and target.contacted_ms is None for target in open_)


def _waves(rollout: Rollout, targets: Sequence[Target]) -> list[api.WaveView]:
    views = []
    for position, wave in enumerate(rollout.all_waves):
        is_tail = position == len(rollout.waves)
        if is_tail and not any(target.wave == position for target in targets):
            continue
        views.append(
            api.WaveView(
                number=position + 1,
                state=_wave_state(rollout.state, wave.state),
                policy=wave.policy,
                counts=wave_tally(targets, position),
                tail=is_tail,
                why=wave.why,
                opened_ms=wave.opened_ms,
                judged_ms=wave.judged_ms,
            )
        )
    return views


def _wave_state(rollout: RolloutState, wave: WaveState) -> str:
    """A rollout that has ended leaves no wave running."""
    if rollout in FINAL and wave is WaveState.PENDING:
        return "not_begun"
    if rollout is RolloutState.ABORTED and wave in (WaveState.RUNNING, WaveState.SOAKING):
        return "aborted"
    if rollout is RolloutState.ROLLED_BACK and wave not in (WaveState.FAILED, WaveState.SKIPPED):
        return "rolled_back"
    return wave.value


def _row(target: Target, online: Set[str]) -> api.RolloutDeviceView:
    return api.RolloutDeviceView(
        device=target.device,
        wave=target.wave + 1,
        state=target.state.value if target.state is not None else "waiting",
        deployment=target.deployment,
        online=target.device in online,
        kind=target.kind.value,
        attempt=target.attempt,
        reason=target.reason,
        error_code=target.error_code,
        straggler=target.straggler,
        regressed=target.regressed,
        asked_ms=target.asked_ms,
        contacted_ms=target.contacted_ms,
        changed_ms=target.changed_ms,
    )
