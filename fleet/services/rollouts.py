"""Rollouts in the store: made, commanded, and moved on by ``tick`` in small transactions.

All that a tick does follows from what is stored: it can be killed between any two transactions, the next one goes on.
Wishes are sent after the commit; one that was committed and not sent is found by ``Wishes.publish_lagging``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from edge_contracts.deployment import IN_FLIGHT, DeploymentState
from fleet.domain import deadlines
from fleet.domain.advance import advance, command
from fleet.domain.changes import Change, View
from fleet.domain.device import Device, DeviceState
from fleet.domain.rollout import FINAL, Rollout, RolloutEvent, RolloutState, Target, after
from fleet.domain.targeting import select
from fleet.domain.wave import check_policy, split
from fleet.domain.wish import Wish, wanted, withdrawn
from fleet.errors import InvalidRequest, InvalidRollout, NotFound, UnsignedBundle
from fleet.services.bundles import Bundles
from fleet.services.clock import NowMs
from fleet.services.wishes import Wishes
from fleet.store.unit_of_work import Store, UnitOfWork

MAX_WAVES = 100
LISTED = 100
MAX_LISTED = 1000
MOVING = (RolloutState.RUNNING, RolloutState.PAUSED, RolloutState.ROLLING_BACK)
OPEN = (RolloutState.DRAFT, *MOVING)
_HEAVY = ("capabilities", "vitals", "choices")


class Rollouts:
    """Safe from any thread: each transaction reads what it changes."""

    def __init__(
        self, store: Store, bundles: Bundles, wishes: Wishes, now_ms: NowMs, random_bytes: Callable[[int], bytes]
    ) -> None:
        self._store = store
        self._bundles = bundles
        self._wishes = wishes
        self._now_ms = now_ms
        self._random_bytes = random_bytes

    def create(self, draft: Rollout) -> Rollout:
        """Stores ``draft`` (its id, digest, times and state are set here) as a DRAFT.

        Raises NotFound (bundle), UnsignedBundle, InvalidRollout naming the field.
        """
        bundle = self._bundles.get(draft.model, draft.version)
        if not bundle.signed and not draft.policy.allow_unsigned:
            raise UnsignedBundle(f"{bundle.name} {bundle.version}")
        _check(draft)
        rollout = msgspec.structs.replace(
            draft,
            id="r" + self._random_bytes(5).hex(),
            name=draft.name or f"{bundle.name} {bundle.version}",
            digest=bundle.digest,
            created_ms=self._now_ms(),
            state=RolloutState.DRAFT,
        )
        with self._store.write() as work:
            work.rollouts.save([rollout])
            work.commit()
        return rollout

    def get(self, rollout: str) -> tuple[Rollout, list[Target]]:
        """Raises NotFound."""
        with self._store.read() as work:
            return _existing(work.rollouts.get(rollout), rollout), work.targets.find({"rollout": rollout})

    def all(self, limit: int = LISTED) -> list[tuple[Rollout, list[Target]]]:
        """Newest first, with their targets: all that have not ended, and the newest ``limit`` of those that have.

        Raises InvalidRequest for a limit that is not between 0 and MAX_LISTED.
        """
        if not 0 <= limit <= MAX_LISTED:
            raise InvalidRequest("limit", f"{limit} is not between 0 and {MAX_LISTED}")
        with self._store.read() as work:
            rollouts = work.rollouts.find({"state": OPEN})
            rollouts += work.rollouts.find({"state": FINAL}, newest_by="created_ms", limit=limit)
            rollouts.sort(key=lambda rollout: rollout.created_ms, reverse=True)
            targets: dict[str, list[Target]] = {rollout.id: [] for rollout in rollouts}
            for target in work.targets.find({"rollout": targets}) if targets else []:
                targets[target.rollout].append(target)
        return [(rollout, targets[rollout.id]) for rollout in rollouts]

    def states(self) -> dict[str, int]:
        """How many rollouts are in each state; counted by the store."""
        with self._store.read() as work:
            return {str(state): count for state, count in work.rollouts.count("state").items()}

    def act(self, rollout: str, event: RolloutEvent, why: str) -> None:
        """An operator's verb. Raises NotFound, NotAllowedNow, InvalidRollout (no device matches)."""
        with self._store.write() as work:
            head = _existing(work.rollouts.get(rollout, lock=True), rollout)
            after(head.state, event, f"rollout {head.id}")
            concerned: set[str] = set()
            if event is RolloutEvent.START:
                head, concerned = self._make_targets(work, head)
            view = self._view(work, head)
            concerned |= _save(work, command(view, event, why))
            work.commit()
        self._wishes.publish(concerned)
        self.tick()

    def tick(self) -> int:
        """Moves every rollout on as far as it goes now; how many changes that were."""
        with self._store.read() as work:
            moving = [rollout.id for rollout in work.rollouts.find({"state": MOVING})]
        return sum(self._move(rollout) for rollout in moving)

    def _move(self, rollout: str) -> int:
        """Looks first without the right to write, which others may need; then writes until nothing is left to do."""
        with self._store.read() as work:
            if self._next(work, rollout, lock=False) is None:
                return 0
        changes = 0
        while True:
            with self._store.write() as work:
                change = self._next(work, rollout, lock=True)
                if change is None:
                    return changes
                concerned = _save(work, change)
                work.commit()
            changes += 1
            self._wishes.publish(concerned)

    def _next(self, work: UnitOfWork, rollout: str, *, lock: bool) -> Change | None:
        head = work.rollouts.get(rollout, lock=lock)
        return None if head is None else advance(self._view(work, head))

    def _view(self, work: UnitOfWork, head: Rollout) -> View:
        targets = work.targets.find({"rollout": head.id})
        open_ = sorted({target.device for target in targets if not target.terminal})
        devices = work.devices.find({"id": open_}, without=_HEAVY) if open_ else []
        active = {device.id: device for device in devices if device.state is DeviceState.ACTIVE}
        elsewhere = work.targets.find({"device": open_, "state": IN_FLIGHT}) if open_ else []
        return View(
            rollout=head,
            targets=tuple(targets),
            now_ms=self._now_ms(),
            online={name for name, device in active.items() if device.online},
            busy={t.device for t in elsewhere if t.rollout != head.id},
            gone=set(open_) - set(active),
            serving={name: device.serving(head.model) for name, device in active.items()},
        )

    def _make_targets(self, work: UnitOfWork, head: Rollout) -> tuple[Rollout, set[str]]:
        """One target for each device that the selector finds now; older rollouts lose those they have not reached."""
        devices = work.devices.find({"state": DeviceState.ACTIVE}, without=(*_HEAVY, "reported"))
        chosen = select(head.selector, devices)
        if not chosen:
            raise InvalidRollout("selector", "no enrolled device matches; see `mindfleet device list`")
        counts = split([wave.policy.size for wave in head.waves], len(chosen))
        places = [wave for wave, count in enumerate(counts) for _ in range(count)]
        targets = [
            Target(
                rollout=head.id, device=device, deployment=f"{head.id}-1", wave=wave, first_wave=wave, position=position
            )
            for position, (device, wave) in enumerate(zip(chosen, places, strict=False))
        ]  # fmt: skip
        work.targets.save(targets)
        superseded = self._supersede(work, head, {target.device for target in targets})
        return msgspec.structs.replace(head, matched=len(chosen)), superseded

    def _supersede(self, work: UnitOfWork, head: Rollout, devices: set[str]) -> set[str]:
        """Targets that older rollouts of the same model have not reached end as superseded: the newer bundle wins."""
        concerned: set[str] = set()
        now_ms = self._now_ms()
        for older in work.rollouts.find({"model": head.model, "state": MOVING}):
            unreached = [
                msgspec.structs.replace(
                    target,
                    state=DeploymentState.SUPERSEDED,
                    reason=f"superseded by rollout {head.id}",
                    changed_ms=now_ms,
                )
                for target in work.targets.find({"rollout": older.id})
                if target.device in devices and not target.terminal and target.contacted_ms is None
            ]
            if unreached and older.id != head.id:
                asked = tuple(target for target in unreached if target.asked_ms is not None)
                concerned |= _save(work, Change(older, tuple(unreached), withdrawn=asked))
        return concerned


def _save(work: UnitOfWork, change: Change) -> set[str]:
    """Writes a change; the devices whose wish it touched."""
    rollout = change.rollout
    work.rollouts.save([msgspec.structs.replace(rollout, revision=rollout.revision + 1)])
    names = {target.device for target in (*change.asked, *change.withdrawn)}
    devices = {d.id: d for d in work.devices.find({"id": names}, without=_HEAVY)} if names else {}
    raised = {
        name: msgspec.structs.replace(device, desired_version=device.desired_version + 1)
        for name, device in devices.items()
    }
    work.devices.save(list(raised.values()), only=("desired_version",))
    asked = {(t.device, t.kind, t.attempt) for t in change.asked}
    work.targets.save(
        [
            msgspec.structs.replace(t, desired_version=raised[t.device].desired_version)
            if (t.device, t.kind, t.attempt) in asked and t.device in raised
            else t
            for t in change.targets
        ]
    )
    for target in change.asked:
        _put_wish(work, rollout, target.device, wanted(rollout, target))
    for target in change.withdrawn:
        if target.device in devices:
            _withdraw(work, rollout, target, devices[target.device])
    return set(raised)


def _withdraw(work: UnitOfWork, rollout: Rollout, target: Target, device: Device) -> None:
    current = work.wishes.get(device.id, rollout.model)
    _put_wish(work, rollout, device.id, withdrawn(rollout, target, device, current))


def _put_wish(work: UnitOfWork, rollout: Rollout, device: str, wish: Wish | None) -> None:
    work.wishes.delete({"device": device, "model": rollout.model})
    if wish is not None:
        work.wishes.save([wish])


def _check(draft: Rollout) -> None:
    if not 1 <= len(draft.waves) <= MAX_WAVES:
        raise InvalidRollout("waves", f"{len(draft.waves)} given, 1 to {MAX_WAVES} are allowed")
    for position, wave in enumerate(draft.waves):
        check_policy(wave.policy, f"waves[{position}]")
    check_policy(draft.tail.policy, "tail")
    deadlines.check(draft.deadlines_s)
    if draft.max_in_flight < 1:
        raise InvalidRollout("max_in_flight", f"{draft.max_in_flight} is not >= 1")
    if not 0 < draft.tail_expires_s < 1e9:
        raise InvalidRollout("tail_expires_s", f"{draft.tail_expires_s:g} is not a number of seconds > 0")
    if len(draft.name) > 200:
        raise InvalidRollout("name", f"{len(draft.name)} characters, at most 200 are allowed")


def _existing(rollout: Rollout | None, name: str) -> Rollout:
    if rollout is None:
        raise NotFound("rollout", name)
    return rollout
