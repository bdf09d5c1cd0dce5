"""Repositories over SQLAlchemy Core: one class for every kind of record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from fleet.store.records import Field, Kind, fields, plain
from fleet.store.unit_of_work import Condition, Scalar

MAX_IN = 5000
"""Values in one IN list; SQLite takes 32,766 parameters in a statement."""


class SqlRepository:
    """Works inside the transaction of ``connection``."""

    def __init__(self, kind: Kind, table: sa.Table, connection: sa.Connection) -> None:
        self._kind = kind
        self._table = table
        self._connection = connection
        self._fields = fields(kind.struct)

    def get(self, *key: Scalar, lock: bool = False) -> Any:
        same = [self._table.c[name] == plain(part) for name, part in zip(self._kind.key, key, strict=True)]
        query = sa.select(*(self._table.c[field.name] for field in self._fields)).where(*same)
        row = self._connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else self._record(row, self._fields)

    def find(
        self,
        where: Mapping[str, Condition] | None = None,
        *,
        at_least: Mapping[str, int] | None = None,
        newest_by: str | None = None,
        limit: int | None = None,
        without: Sequence[str] = (),
    ) -> list[Any]:
        wanted = [field for field in self._fields if field.name not in without]
        order = [self._table.c[newest_by].desc()] if newest_by else [self._table.c[name] for name in self._kind.key]
        low = [self._table.c[name] >= value for name, value in (at_least or {}).items()]
        found: list[Any] = []
        for part in _parts(where or {}):
            query = sa.select(*(self._table.c[field.name] for field in wanted))
            query = query.where(*self._conditions(part), *low).order_by(*order).limit(limit)
            found += [self._record(row, wanted) for row in self._connection.execute(query)]
        return found[:limit]

    def count(self, by: str, where: Mapping[str, Condition] | None = None) -> dict[Scalar, int]:
        counted: Counter[Scalar] = Counter()
        for part in _parts(where or {}):
            query = sa.select(self._table.c[by], sa.func.count()).where(*self._conditions(part))
            for value, count in self._connection.execute(query.group_by(self._table.c[by])):
                counted[value] += count
        return dict(counted)

    def save(self, records: Sequence[Any], *, only: Sequence[str] = ()) -> None:
        if not records:
            return
        # Sorted by key, so that two writers lock rows in the same order.
        rows = sorted(
            (self._row(record, only) for record in records), key=lambda row: [str(row[name]) for name in self._kind.key]
        )
        if only:
            keys = [self._table.c[name] == sa.bindparam(f"key_{name}") for name in self._kind.key]
            update = self._table.update().where(*keys).values({name: sa.bindparam(f"new_{name}") for name in only})
            self._connection.execute(update, [self._renamed(row, only) for row in rows])
        else:
            self._connection.execute(self._upsert(), rows)

    def delete(self, where: Mapping[str, Condition], *, below: Mapping[str, int] | None = None) -> int:
        if not where and not below:
            raise ValueError("delete needs a condition")
        high = [self._table.c[name] < value for name, value in (below or {}).items()]
        deletes = [self._table.delete().where(*self._conditions(part), *high) for part in _parts(where)]
        return sum(self._connection.execute(delete).rowcount for delete in deletes)

    def _conditions(self, where: Mapping[str, Condition]) -> list[sa.ColumnElement[bool]]:
        conditions: list[sa.ColumnElement[bool]] = []
        for name, wanted in where.items():
            column = self._table.c[name]
            if _is_list(wanted):
                values = [plain(item) for item in wanted]  # type: ignore[union-attr]
                some = column.in_([value for value in values if value is not None])
                conditions.append(sa.or_(some, column.is_(None)) if None in values else some)
            else:
                conditions.append(column.is_(None) if wanted is None else column == plain(wanted))
        return conditions

    def _upsert(self) -> Any:
        dialect = postgresql if self._connection.dialect.name == "postgresql" else sqlite
        insert = dialect.insert(self._table)
        rest = {field.name: insert.excluded[field.name] for field in self._fields if field.name not in self._kind.key}
        if not rest:
            return insert.on_conflict_do_nothing(index_elements=list(self._kind.key))
        return insert.on_conflict_do_update(index_elements=list(self._kind.key), set_=rest)

    def _row(self, record: Any, only: Sequence[str]) -> dict[str, Any]:
        wanted = {*only, *self._kind.key} if only else None
        return {
            field.name: _stored(getattr(record, field.name), field)
            for field in self._fields
            if wanted is None or field.name in wanted
        }

    def _renamed(self, row: dict[str, Any], only: Sequence[str]) -> dict[str, Any]:
        return {f"key_{name}": row[name] for name in self._kind.key} | {f"new_{name}": row[name] for name in only}

    def _record(self, row: sa.Row[Any], wanted: Sequence[Field]) -> Any:
        values = {
            field.name: value if value is None or field.load is None else field.load(value)
            for field, value in zip(wanted, row, strict=True)
        }
        return self._kind.struct(**values)


def _stored(value: Any, field: Field) -> Any:
    if field.storage == "json" and value is not None:
        return msgspec.json.encode(value).decode()
    return plain(value)


def _is_list(wanted: Condition) -> bool:
    return isinstance(wanted, Collection) and not isinstance(wanted, str)


def _parts(where: Mapping[str, Condition]) -> list[Mapping[str, Condition]]:
    """The condition split so that no list of it is too long for one statement."""
    for name, wanted in where.items():
        if _is_list(wanted) and len(wanted) > MAX_IN:  # type: ignore[arg-type]
            values = sorted(wanted, key=str)  # type: ignore[arg-type]
            chunks = [values[start : start + MAX_IN] for start in range(0, len(values), MAX_IN)]
            return [part for chunk in chunks for part in _parts({**where, name: chunk})]
    return [where]
