from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.errors import RecordRefused, SchemaNewer, StoreUnavailable
from fleet.store.sql import unit_of_work
from fleet.store.sql.unit_of_work import SqlStore
from tests.suites.store_suite import DEVICE, HUGE_NUMBER, RECORDS, StoreSuite, save


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqlStore]:
        store = opened(tmp_path / "fleet.db")
        yield store
        store.close()


def opened(path: Path) -> SqlStore:
    store = SqlStore(f"sqlite:///{path}")
    store.open()
    return store


def test_a_database_of_a_newer_program_is_refused_with_the_way_out(tmp_path: Path) -> None:
    opened(tmp_path / "fleet.db").close()
    with sqlite3.connect(tmp_path / "fleet.db") as connection:
        connection.execute("insert into schema_version values (99)")
    with pytest.raises(SchemaNewer, match="has schema 99, this version knows up to 2: update mindedge"):
        opened(tmp_path / "fleet.db")


def test_a_file_that_is_no_database_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "fleet.db").write_bytes(bytes(range(256)) * 32)
    with pytest.raises(StoreUnavailable, match="not a database"):
        opened(tmp_path / "fleet.db")


def test_a_database_of_the_first_schema_is_migrated_once_and_keeps_its_events(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    store = opened(path)
    event = RECORDS["events"]
    save(store, "events", event)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "drop index ix_events_received_ms; alter table events drop column received_ms;"
            "update schema_version set version = 1"
        )
    for _ in range(2):
        again = opened(path)
        with again.read() as work:
            assert [(found.id, found.at_ms, found.received_ms) for found in work.events.find()] == [("e1", 1, 1)]
        again.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("select version from schema_version order by 1").fetchall() == [(1,), (2,)]
        indexes = connection.execute("select name from sqlite_master where type = 'index'").fetchall()
    assert ("ix_events_received_ms",) in indexes


def test_a_number_that_the_database_cannot_hold_is_said_and_the_store_goes_on(tmp_path: Path) -> None:
    store = opened(tmp_path / "fleet.db")
    with pytest.raises(RecordRefused):
        save(store, "events", HUGE_NUMBER)
    save(store, "devices", DEVICE)


def test_opening_again_keeps_what_was_stored(tmp_path: Path) -> None:
    first = opened(tmp_path / "fleet.db")
    save(first, "devices", DEVICE)
    first.close()
    with opened(tmp_path / "fleet.db").read() as work:
        assert work.devices.find() == [DEVICE]


def test_a_locked_database_is_said_in_one_line_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_of_work, "BUSY_TIMEOUT_MS", 20)
    store = opened(tmp_path / "fleet.db")
    with sqlite3.connect(tmp_path / "fleet.db", isolation_level=None) as other:
        other.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match="database is locked"), store.write() as work:
            work.devices.save([DEVICE])
        other.execute("rollback")
    save(store, "devices", DEVICE)


def test_what_was_committed_survives_a_kill_in_the_next_transaction(tmp_path: Path) -> None:
    opened(tmp_path / "fleet.db").close()
    program = """
import os, signal, sys
import msgspec
from fleet.store.sql.unit_of_work import SqlStore
from tests.suites.store_suite import DEVICE
store = SqlStore(sys.argv[1]); store.open()
with store.write() as work:
    work.devices.save([DEVICE]); work.commit()
with store.write() as work:
    work.devices.delete({"id": "cam-1"})
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program, f"sqlite:///{tmp_path / 'fleet.db'}"], check=False, timeout=60)
    with opened(tmp_path / "fleet.db").read() as work:
        assert work.devices.find() == [DEVICE]
