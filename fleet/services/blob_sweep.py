"""Garbage collection of the registry: blobs that nothing names any more, once nobody has asked for them for a while.

What stays: every bundle that is registered, wished for, reported by a device (as serving, attempted or last good), or
of a rollout in the store (open, or ended and not forgotten: it may be rolled back), with all that its index points to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from edge_contracts import names
from edge_contracts.bundle import parse_bundle
from edge_contracts.errors import ContractError
from fleet.domain.device import Device
from fleet.errors import NotFound, RegistryError
from fleet.services.clock import NowMs
from fleet.store.unit_of_work import Store, UnitOfWork

GRACE_S = 86_400.0
EVERY_S = 6 * 3600.0


class SweptBlobs(Protocol):
    """What this room needs of the registry."""

    def read_small(self, digest: str) -> bytes:
        """Raises NotFound."""

    def sweep(self, keep: set[str], unused_since_s: float) -> int:
        """Removes every other blob that nobody asked for since that Unix time; how many."""


class BlobSweep:
    """``sweep`` may be called as often as one likes; it does its work every ``every_s``.

    ``grace_s``: a push has that long from one piece to the next, and from its last blob to the registration.
    """

    def __init__(
        self, store: Store, blobs: SweptBlobs, now_ms: NowMs, *, grace_s: float = GRACE_S, every_s: float = EVERY_S
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._now_ms = now_ms
        self._grace_s = grace_s
        self._every_s = every_s
        self._swept_ms: int | None = None

    def sweep(self) -> int:
        """How many blobs went. Raises RegistryError, with nothing removed, when a bundle in use cannot be read (it may
        be of a newer program)."""
        now_ms = self._now_ms()
        if self._swept_ms is not None and now_ms - self._swept_ms < 1000 * self._every_s:
            return 0
        with self._store.read() as work:
            ours, reported = _ours(work), _reported(work)
        keep = self._reachable(ours, strict=True) | self._reachable(reported - ours, strict=False)
        gone = self._blobs.sweep(keep, now_ms / 1000 - self._grace_s)
        self._swept_ms = now_ms
        return gone

    def _reachable(self, indexes: Iterable[str], *, strict: bool) -> set[str]:
        """The indexes and all that they point to. Not ``strict``: what is no bundle is taken for a single blob."""
        reachable: set[str] = set()
        for index in indexes:
            reachable.add(index)
            try:
                reachable.update(parse_bundle(self._blobs.read_small(index), self._blobs.read_small).blobs())
            except NotFound:
                continue  # it was never here, or is not whole: no device can take it until it is pushed again
            except ContractError as error:
                if strict:
                    raise RegistryError("MANIFEST_INVALID", f"bundle {index} is in use, but {error}") from error
        return reachable


def _ours(work: UnitOfWork) -> set[str]:
    """Digests of the bundles that the fleet itself names."""
    return {str(digest) for kind in (work.bundles, work.wishes, work.rollouts) for digest in kind.count("digest")}


def _reported(work: UnitOfWork) -> set[str]:
    """Digests that devices name, of whatever; only those that are digests."""
    devices = work.devices.find(without=("capabilities", "vitals", "choices"))
    return {digest for device in devices for digest in _of(device) if _is_digest(digest)}


def _of(device: Device) -> set[str]:
    models = device.reported.models.values() if device.reported is not None else ()
    refs = (ref for entry in models for ref in (entry.active, entry.attempted, entry.last_good))
    return {ref.digest for ref in refs if ref is not None}


def _is_digest(text: str) -> bool:
    try:
        names.digest(text)
    except ContractError:
        return False
    return True
