"""From any earlier schema to the newest, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from fleet.errors import SchemaNewer
from fleet.store.sql.tables import SCHEMA_VERSION

_STEPS: Mapping[int, tuple[str, ...]] = {
    2: (
        "ALTER TABLE events ADD COLUMN received_ms BIGINT NOT NULL DEFAULT 0",
        "UPDATE events SET received_ms = at_ms",  # the best that is known of them
        "CREATE INDEX ix_events_received_ms ON events (received_ms)",
    ),
}
"""By the version that they lead to; statements that SQLite and PostgreSQL both take."""


def migrate(connection: sa.Connection, tables: sa.MetaData) -> None:
    """Creates what is missing, changes what is of an earlier version, and notes the version.

    Raises SchemaNewer for a database of a newer program.
    """
    tables.tables["schema_version"].create(connection, checkfirst=True)
    found = connection.execute(sa.select(sa.func.max(tables.tables["schema_version"].c.version))).scalar()
    if found is not None and found > SCHEMA_VERSION:
        raise SchemaNewer(str(found), str(SCHEMA_VERSION))
    for version in range(SCHEMA_VERSION + 1 if found is None else found + 1, SCHEMA_VERSION + 1):
        for statement in _STEPS[version]:
            connection.execute(sa.text(statement))
    tables.create_all(connection)
    if found != SCHEMA_VERSION:
        connection.execute(tables.tables["schema_version"].insert().values(version=SCHEMA_VERSION))
