"""The tables, made from the kinds of records: plain fields are columns, everything else is one column of JSON."""

from __future__ import annotations

import sqlalchemy as sa

from fleet.store.records import KINDS, Field, Kind, fields

SCHEMA_VERSION = 2
_TYPES = {"text": sa.Text, "integer": sa.BigInteger, "real": sa.Float, "boolean": sa.Boolean, "json": sa.Text}


def metadata() -> sa.MetaData:
    """All tables of the newest schema, and the one that holds the schema's version."""
    tables = sa.MetaData()
    sa.Table("schema_version", tables, sa.Column("version", sa.Integer, primary_key=True))
    for kind in KINDS.values():
        _table(kind, tables)
    return tables


def _table(kind: Kind, tables: sa.MetaData) -> sa.Table:
    columns = [_column(field, field.name in kind.key) for field in fields(kind.struct)]
    indexes = [sa.Index(f"ix_{kind.name}_{'_'.join(names)}", *names) for names in kind.indexes]
    return sa.Table(kind.name, tables, *columns, sa.PrimaryKeyConstraint(*kind.key), *indexes)


def _column(field: Field, in_key: bool) -> sa.Column[object]:
    return sa.Column(field.name, _TYPES[field.storage](), nullable=not in_key and field.nullable)
