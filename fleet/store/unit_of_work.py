"""Seam: the store. Drivers: ``memory.py`` (tests, trials) and ``sql/`` (SQLite, PostgreSQL).

    with store.write() as work:
        device = work.devices.get("cam-1")
        work.devices.save([changed])
        work.commit()

Contract: a write block sees and holds the only write transaction (SQLite, memory) or locks what it reads with
``lock=True`` (PostgreSQL); leaving it without ``commit()`` rolls everything back, and what was committed survives a
kill. A read block sees one consistent state. Blocks of one thread do not nest; a store may be used from any thread.

Records are frozen Structs; a repository returns equal ones, never the same row twice. Raises StoreUnavailable, and
RecordRefused for a value that the database cannot hold (memory holds any).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from fleet.domain.catalogue import RegisteredBundle
from fleet.domain.device import Device
from fleet.domain.history import LatencyMinute
from fleet.domain.identity import Credential, StoredToken
from fleet.domain.rollout import Rollout, Target
from fleet.domain.wish import Wish
from fleet.store.stored_event import StoredEvent

Scalar = str | int | float | bool | None
Condition = Scalar | Collection[Scalar]
T = TypeVar("T")


class Repository(Protocol[T]):
    """The records of one kind, by the key of ``records.py``."""

    def get(self, *key: Scalar, lock: bool = False) -> T | None:
        """The record with that key. ``lock``: no other transaction may change it before this one ends."""

    def find(
        self,
        where: Mapping[str, Condition] | None = None,
        *,
        at_least: Mapping[str, int] | None = None,
        newest_by: str | None = None,
        limit: int | None = None,
        without: Sequence[str] = (),
    ) -> list[T]:
        """Records whose plain fields equal the values (or are among them, for a list, tuple or set), by key.

        at_least: lower bounds. newest_by: order by that field, greatest first, instead. without: fields left at their
        defaults, not read (big ones).
        """

    def count(self, by: str, where: Mapping[str, Condition] | None = None) -> dict[Scalar, int]:
        """How many of what ``find`` would find have each value of the plain field ``by`` (an enum's plain value)."""

    def save(self, records: Sequence[T], *, only: Sequence[str] = ()) -> None:
        """Insert or replace by key. ``only``: of records that exist, write just these fields (the rest stays)."""

    def delete(self, where: Mapping[str, Condition], *, below: Mapping[str, int] | None = None) -> int:
        """Delete what ``find`` would find and is ``below`` those bounds; how many. No condition: ValueError."""


class UnitOfWork(Protocol):
    """One transaction."""

    @property
    def devices(self) -> Repository[Device]: ...
    @property
    def credentials(self) -> Repository[Credential]: ...
    @property
    def tokens(self) -> Repository[StoredToken]: ...
    @property
    def bundles(self) -> Repository[RegisteredBundle]: ...
    @property
    def rollouts(self) -> Repository[Rollout]: ...
    @property
    def targets(self) -> Repository[Target]: ...
    @property
    def wishes(self) -> Repository[Wish]: ...
    @property
    def latencies(self) -> Repository[LatencyMinute]: ...
    @property
    def events(self) -> Repository[StoredEvent]: ...

    def commit(self) -> None:
        """Everything since the block began becomes durable and visible, or StoreUnavailable and nothing does."""


class Store(Protocol):
    """Where the fleet's state lives."""

    def open(self) -> None:
        """Creates or migrates the schema. Raises SchemaNewer, StoreUnavailable."""

    def write(self) -> AbstractContextManager[UnitOfWork]:
        """A transaction that may change things."""

    def read(self) -> AbstractContextManager[UnitOfWork]:
        """A transaction that only looks; commit() raises RuntimeError."""

    def close(self) -> None: ...
