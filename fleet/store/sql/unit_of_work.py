"""Driver of the store seam over SQLAlchemy: SQLite for one server, PostgreSQL by URL.

SQLite: WAL, so that readers never wait; a write transaction begins with BEGIN IMMEDIATE, so that it cannot fail
half-way for a lock; synchronous FULL, since messages are acknowledged after the commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import event, exc

from fleet.errors import ConfigurationError, RecordRefused, StoreUnavailable
from fleet.store.records import KINDS
from fleet.store.sql.migrations import migrate
from fleet.store.sql.repositories import SqlRepository
from fleet.store.sql.tables import metadata
from fleet.store.unit_of_work import UnitOfWork

BUSY_TIMEOUT_MS = 10_000
_WRITES = "mindedge_writes"


class SqlStore:
    """``url``: as SQLAlchemy has it, "sqlite:////data/fleet.db" or "postgresql+psycopg://..."."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._tables = metadata()
        self._engine: sa.Engine | None = None

    def open(self) -> None:
        """Raises StoreUnavailable, SchemaNewer; ConfigurationError for a URL that names no database; ImportError."""
        try:
            engine = sa.create_engine(self._url)
        except exc.ArgumentError as error:  # its text may hold the URL, and that a password
            raise ConfigurationError(
                "--database", "is no database: sqlite:////FILE or postgresql+psycopg://..."
            ) from error
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        self._engine = engine
        with self._transaction(writes=True) as connection:
            migrate(connection, self._tables)
            connection.commit()

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()

    @contextlib.contextmanager
    def write(self) -> Iterator[UnitOfWork]:
        with self._transaction(writes=True) as connection:
            yield cast(UnitOfWork, _SqlWork(connection, self._tables, writes=True))

    @contextlib.contextmanager
    def read(self) -> Iterator[UnitOfWork]:
        with self._transaction(writes=False) as connection:
            yield cast(UnitOfWork, _SqlWork(connection, self._tables, writes=False))

    @contextlib.contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[sa.Connection]:
        if self._engine is None:
            raise RuntimeError("open() the store first")
        try:
            with self._engine.connect().execution_options(**self._options(writes)) as connection:
                yield connection  # closing rolls back what was not committed
        except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
            raise StoreUnavailable(_first_line(error)) from error
        except (exc.DataError, OverflowError) as error:  # PostgreSQL says the one, SQLite's driver the other
            raise RecordRefused(_first_line(error)) from error
        except exc.DatabaseError as error:
            if type(error) is not exc.DatabaseError:
                raise
            # SQLite says this of a file that is damaged or no database at all.
            raise StoreUnavailable(_first_line(error)) from error

    def _options(self, writes: bool) -> dict[str, Any]:
        """A reader sees one state: SQLite's transactions do by themselves, PostgreSQL's must be told."""
        assert self._engine is not None
        if writes or self._engine.dialect.name != "postgresql":
            return {_WRITES: writes}
        return {_WRITES: False, "isolation_level": "REPEATABLE READ", "postgresql_readonly": True}


class _SqlWork:
    def __init__(self, connection: sa.Connection, tables: sa.MetaData, *, writes: bool) -> None:
        self._connection = connection
        self._tables = tables
        self._writes = writes

    def __getattr__(self, name: str) -> SqlRepository:
        if name not in KINDS:
            raise AttributeError(name)
        return SqlRepository(KINDS[name], self._tables.tables[name], self._connection)

    def commit(self) -> None:
        if not self._writes:
            raise RuntimeError("a read block has nothing to commit")
        self._connection.commit()


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0]


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
