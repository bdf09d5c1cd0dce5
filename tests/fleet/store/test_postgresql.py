"""The same suite on PostgreSQL, where MINDEDGE_TEST_POSTGRESQL names a database that may be emptied."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from fleet.store.sql.tables import metadata
from fleet.store.sql.unit_of_work import SqlStore
from tests.suites.store_suite import StoreSuite

URL = os.environ.get("MINDEDGE_TEST_POSTGRESQL", "")


@pytest.mark.skipif(not URL, reason="MINDEDGE_TEST_POSTGRESQL is not set")
class TestPostgresqlStore(StoreSuite):
    @pytest.fixture
    def store(self) -> Iterator[SqlStore]:
        engine = sa.create_engine(URL)
        metadata().drop_all(engine)
        engine.dispose()
        store = SqlStore(URL)
        store.open()
        yield store
        store.close()
