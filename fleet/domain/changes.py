"""What the rules of a rollout look at and what they give: the parts that ``advance.py`` puts together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from edge_contracts.deployment import DeploymentState
from edge_contracts.messages import BundleRef
from fleet.domain.rollout import FINAL, Rollout, RolloutEvent, RolloutState, Target, TargetKind, after
from fleet.domain.tallying import latest


@dataclass(frozen=True)
class View:
    """All that the rules look at. ``targets``: every target of the rollout. The sets hold device ids.

    busy: with a deployment of another rollout in flight. gone: no longer active. serving: what each device reports.
    """

    rollout: Rollout
    targets: tuple[Target, ...]
    now_ms: int
    online: Set[str] = frozenset()
    busy: Set[str] = frozenset()
    gone: Set[str] = frozenset()
    serving: Mapping[str, BundleRef | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What to save, all or nothing. ``asked`` and ``withdrawn`` are among ``targets``: their devices' wishes change."""

    rollout: Rollout
    targets: tuple[Target, ...] = ()
    asked: tuple[Target, ...] = ()
    withdrawn: tuple[Target, ...] = ()


def moved(view: View, event: RolloutEvent, why: str | None, **more: Any) -> Rollout:
    """The head after ``event``, with ``why``."""
    rollout = view.rollout
    state = after(rollout.state, event)
    more.setdefault("started_ms", rollout.started_ms or (view.now_ms if state is RolloutState.RUNNING else None))
    return msgspec.structs.replace(
        rollout, state=state, why=why, finished_ms=view.now_ms if state in FINAL else None, **more
    )


def abort(view: View, why: str) -> Change:
    """Ends the rollout: what has not ended is canceled and withdrawn, what has committed stays."""
    canceled = tuple(ended(t, DeploymentState.CANCELED, why, None, view.now_ms) for t in view.targets if not t.terminal)
    rollout = moved(view, RolloutEvent.ABORT, why)
    return Change(rollout, canceled, withdrawn=_asked(canceled))


def go_back(view: View, position: int | None, why: str) -> Change:
    """Ends what has not ended and makes a target of kind BACK for each device that committed (of one wave, or all)."""
    sent_back = {t.device for t in view.targets if t.kind is TargetKind.BACK}
    concerned = [t for t in latest(view.targets) if position is None or t.wave == position]
    canceled = tuple(ended(t, DeploymentState.CANCELED, why, None, view.now_ms) for t in concerned if not t.terminal)
    back = tuple(
        _back(t)
        for t in concerned
        if t.state is DeploymentState.COMMITTED and t.device not in sent_back and not _had_it(t, view.rollout)
    )
    rollout = moved(view, RolloutEvent.ROLLBACK, why, rollback_wave=position)
    return Change(rollout, (*canceled, *back), withdrawn=_asked(canceled))


def _back(target: Target) -> Target:
    return Target(
        rollout=target.rollout,
        device=target.device,
        deployment=f"{target.deployment}-back",
        wave=target.wave,
        first_wave=target.first_wave,
        position=target.position,
        kind=TargetKind.BACK,
        attempt=target.attempt,
        previous=target.previous,
    )


def _had_it(target: Target, rollout: Rollout) -> bool:
    return target.previous is not None and target.previous.digest == rollout.digest


def _asked(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    return tuple(target for target in targets if target.asked_ms is not None)


def end(
    view: View, targets: list[Target], state: DeploymentState, reason: Callable[[Target], str], code: str | None = None
) -> Change | None:
    """Ends the targets in ``state`` and withdraws their wishes; None when there are none."""
    if not targets:
        return None
    over = tuple(ended(t, state, reason(t), code, view.now_ms) for t in targets)
    return Change(view.rollout, over, withdrawn=_asked(over))


def ended(target: Target, state: DeploymentState, reason: str, code: str | None, now_ms: int) -> Target:
    """The target in a terminal state."""
    return msgspec.structs.replace(target, state=state, reason=reason, error_code=code, changed_ms=now_ms)


def with_wave(view: View, position: int, **fields: Any) -> Rollout:
    """The head with other fields of the wave at ``position`` (the tail's is ``len(waves)``)."""
    rollout = view.rollout
    wave = msgspec.structs.replace(rollout.all_waves[position], **fields)
    if position == len(rollout.waves):
        return msgspec.structs.replace(rollout, tail=wave)
    return msgspec.structs.replace(
        rollout, waves=(*rollout.waves[:position], wave, *rollout.waves[position + 1 :])
    )  # fmt: skip


def on(view: View, rollout: Rollout) -> View:
    """The view with another head."""
    return replace(view, rollout=rollout)


def wave_name(view: View, position: int) -> str:
    """For messages; counts from 1."""
    return "tail wave" if position == len(view.rollout.waves) else f"wave {position + 1}"
