"""Counting targets into the numbers a wave is judged on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet.domain.rollout import Target, TargetKind
from fleet.domain.wave import Tally


def latest(targets: Iterable[Target]) -> list[Target]:
    """The latest INSTALL attempt of each device, in the order of first appearance."""
    newest: dict[str, Target] = {}
    for target in targets:
        if target.kind is TargetKind.INSTALL:
            known = newest.get(target.device)
            if known is None or target.attempt > known.attempt:
                newest[target.device] = target
    return list(newest.values())


def wave_tally(targets: Sequence[Target], position: int) -> Tally:
    """Counts of the wave at ``position``; a device sent back is withdrawn, a straggler counts where it is now."""
    sent_back = {t.device for t in targets if t.kind is TargetKind.BACK}
    here = [t for t in latest(targets) if t.wave == position]
    left = sum(t.straggler and t.first_wave == position for t in latest(targets))
    return _count(here, sent_back, left)


def total_tally(targets: Sequence[Target]) -> Tally:
    """Counts over all waves."""
    sent_back = {t.device for t in targets if t.kind is TargetKind.BACK}
    everything = latest(targets)
    return _count(everything, sent_back, sum(t.straggler for t in everything))


def _count(targets: list[Target], sent_back: set[str], stragglers: int) -> Tally:
    counted = [t for t in targets if t.device not in sent_back and (t.succeeded or t.failed or not t.terminal)]
    return Tally(
        targeted=len(counted),
        contacted=sum(t.contacted_ms is not None for t in counted),
        succeeded=sum(t.succeeded for t in counted),
        failed=sum(t.failed for t in counted),
        in_flight=sum(t.in_flight for t in counted),
        withdrawn=len(targets) - len(counted),
        stragglers=stragglers,
    )
