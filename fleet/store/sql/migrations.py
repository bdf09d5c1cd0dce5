"""From any earlier schema to the newest, in one transaction."""

from __future__ import annotations

import sqlalchemy as sa

from fleet.errors import SchemaNewer
from fleet.store.sql.tables import SCHEMA_VERSION


def migrate(connection: sa.Connection, tables: sa.MetaData) -> None:
    """Creates what is missing and notes the version. Raises SchemaNewer for a database of a newer program."""
    tables.tables["schema_version"].create(connection, checkfirst=True)
    found = connection.execute(sa.select(sa.func.max(tables.tables["schema_version"].c.version))).scalar()
    if found is not None and found > SCHEMA_VERSION:
        raise SchemaNewer(str(found), str(SCHEMA_VERSION))
    tables.create_all(connection)
    if found is None:
        connection.execute(tables.tables["schema_version"].insert().values(version=SCHEMA_VERSION))
