"""The same suite on PostgreSQL, where MINDEDGE_TEST_POSTGRESQL names a database that may be emptied."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
import pytest
import sqlalchemy as sa

from fleet.errors import RecordRefused
from fleet.store.sql.tables import metadata
from fleet.store.sql.unit_of_work import SqlStore
from tests.suites.store_suite import DEVICE, HUGE_NUMBER, StoreSuite, save

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

    def test_what_the_database_cannot_hold_is_said_and_the_store_goes_on(self, store: SqlStore) -> None:
        for event in (HUGE_NUMBER, msgspec.structs.replace(HUGE_NUMBER, at_ms=1, text="a\0b")):
            with pytest.raises(RecordRefused):
                save(store, "events", event)
        save(store, "devices", DEVICE)
