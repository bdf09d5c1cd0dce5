"""Driver of the store seam that keeps everything in this process: for tests and trials, with the same transactions."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from fleet.store.records import KINDS, Kind, plain
from fleet.store.unit_of_work import Condition, Scalar, UnitOfWork

Rows = dict[tuple[Any, ...], msgspec.Struct]


class MemoryStore:
    """One writer at a time; readers see the last commit."""

    def __init__(self) -> None:
        self._committed: dict[str, Rows] = {name: {} for name in KINDS}
        self._writing = threading.Lock()

    def open(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing to release."""

    @contextmanager
    def write(self) -> Iterator[UnitOfWork]:
        with self._writing:
            work = _MemoryWork(self._committed, self._publish)
            yield cast(UnitOfWork, work)

    @contextmanager
    def read(self) -> Iterator[UnitOfWork]:
        yield cast(UnitOfWork, _MemoryWork(self._committed, None))

    def _publish(self, changed: dict[str, Rows]) -> None:
        self._committed = {**self._committed, **changed}


class _MemoryWork:
    def __init__(self, committed: dict[str, Rows], publish: Any) -> None:
        self._committed = committed
        self._changed: dict[str, Rows] = {}
        self._publish = publish

    def __getattr__(self, name: str) -> _MemoryRepository:
        if name not in KINDS:
            raise AttributeError(name)
        return _MemoryRepository(KINDS[name], self)

    def rows(self, name: str) -> Rows:
        return self._changed.get(name, self._committed[name])

    def changing(self, name: str) -> Rows:
        return self._changed.setdefault(name, dict(self._committed[name]))

    def commit(self) -> None:
        if self._publish is None:
            raise RuntimeError("a read block has nothing to commit")
        self._publish(self._changed)
        self._changed = {}


class _MemoryRepository:
    def __init__(self, kind: Kind, work: _MemoryWork) -> None:
        self._kind = kind
        self._work = work

    def get(self, *key: Scalar, lock: bool = False) -> Any:  # noqa: ARG002 - a write block is alone here anyway
        return self._work.rows(self._kind.name).get(tuple(plain(part) for part in key))

    def find(
        self,
        where: Mapping[str, Condition] | None = None,
        *,
        at_least: Mapping[str, int] | None = None,
        newest_by: str | None = None,
        limit: int | None = None,
        without: Sequence[str] = (),
    ) -> list[Any]:
        rows = self._work.rows(self._kind.name)
        found = [rows[key] for key in sorted(rows) if _fits(rows[key], where or {}, at_least or {})]
        if newest_by is not None:
            found.sort(key=lambda record: getattr(record, newest_by), reverse=True)
        return [_reduced(record, without) for record in found[:limit]]

    def count(self, by: str, where: Mapping[str, Condition] | None = None) -> dict[Scalar, int]:
        rows = self._work.rows(self._kind.name).values()
        return dict(Counter(plain(getattr(record, by)) for record in rows if _fits(record, where or {}, {})))

    def save(self, records: Sequence[Any], *, only: Sequence[str] = ()) -> None:
        rows = self._work.changing(self._kind.name)
        for record in records:
            key = tuple(plain(getattr(record, part)) for part in self._kind.key)
            if only and key in rows:
                rows[key] = msgspec.structs.replace(rows[key], **{name: getattr(record, name) for name in only})
            elif not only:
                rows[key] = record

    def delete(self, where: Mapping[str, Condition], *, below: Mapping[str, int] | None = None) -> int:
        if not where and not below:
            raise ValueError("delete needs a condition")
        rows = self._work.changing(self._kind.name)
        gone = [
            key
            for key, record in rows.items()
            if _fits(record, where, {}) and all(getattr(record, name) < high for name, high in (below or {}).items())
        ]
        for key in gone:
            del rows[key]
        return len(gone)


def _fits(record: msgspec.Struct, where: Mapping[str, Condition], at_least: Mapping[str, int]) -> bool:
    for name, wanted in where.items():
        value = plain(getattr(record, name))
        if isinstance(wanted, Collection) and not isinstance(wanted, str):
            if value not in {plain(item) for item in wanted}:
                return False
        elif value != plain(wanted):
            return False
    return all(getattr(record, name) is not None and getattr(record, name) >= low for name, low in at_least.items())


def _reduced(record: msgspec.Struct, without: Sequence[str]) -> msgspec.Struct:
    if not without:
        return record
    defaults = {field.name: field.default for field in msgspec.structs.fields(record)}
    return msgspec.structs.replace(record, **{name: defaults[name] for name in without})
