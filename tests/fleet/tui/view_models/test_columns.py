"""Which columns fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.tui.view_models import bundle_rows, device_rows, rollout_devices, rollout_rows
from fleet.tui.view_models.columns import GAP, Column, place

TABLES = (device_rows.COLUMNS, rollout_rows.COLUMNS, rollout_devices.COLUMNS, bundle_rows.COLUMNS)


needs_of_some = st.dictionaries(st.sampled_from(["device", "board"]), st.integers(0, 99))


@given(st.sampled_from(TABLES), st.integers(1, 300), needs_of_some)
def test_placed_columns_fit_when_the_ones_that_must_stay_do(
    columns: tuple[Column, ...], width: int, needs: dict[str, int]
) -> None:
    placed = place(columns, width, needs)
    used = sum(each.width for each in placed) + GAP * (len(placed) - 1)
    must = [column for column in columns if column.priority == 0 and not column.extra]
    if width >= sum(column.minimum for column in must) + GAP * (len(must) - 1):
        assert used <= width
    assert {column.key for column in must} <= {each.column.key for each in placed}
    assert [each.position for each in placed] == sorted(each.position for each in placed)


def test_at_80_cells_the_devices_show_all_that_an_operator_asked_for() -> None:
    keys = [each.column.key for each in place(device_rows.COLUMNS, 79)]
    assert keys == ["online", "device", "board", "cpus", "bundle", "runtime", "precision", "threads", "p90", "state"]


def test_short_names_leave_their_room_to_others() -> None:
    needs = {"device": 6, "board": 16, "bundle": 13, "runtime": 8}
    widths = {each.column.key: each.width for each in place(device_rows.COLUMNS, 79, needs)}
    assert (widths["device"], widths["board"]) == (7, 12)


def test_extras_come_only_when_the_others_have_all_they_want() -> None:
    columns = (Column("name", "NAME", 4, 10), Column("extra", "EXTRA", 5, priority=1, extra=True))
    assert [each.column.key for each in place(columns, 15)] == ["name"]
    assert [(each.column.key, each.width) for each in place(columns, 16)] == [("name", 10), ("extra", 5)]
