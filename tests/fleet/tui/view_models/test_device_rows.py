"""Devices in words."""

from __future__ import annotations

import pytest

from fleet.tui.glyphs import UNICODE
from fleet.tui.view_models import device_rows
from fleet.tui.view_models.device_rows import Entry, cells, entries, matching, ordered, state_span
from fleet.tui.view_models.spans import Tone
from tests.simulators.fleet_client import NOW_MS, backend, device, model


def named(rows: list[Entry]) -> list[str]:
    return [entry.device.id for entry in rows]


def test_a_device_with_two_models_has_two_rows_whose_keys_name_the_device() -> None:
    rows = entries([device("edge-1", model(), model(name="voices"))])
    assert len(rows) == 2
    assert rows[0].key == "edge-1"
    assert [device_rows.device_of(entry.key) for entry in rows] == ["edge-1", "edge-1"]


def test_a_device_without_a_model_has_a_row() -> None:
    (row,) = entries([device("edge-1", models=[])])
    assert state_span(row.device, row.model, NOW_MS).text == "no model"


@pytest.mark.parametrize(
    ("view", "text", "tone"),
    [
        (device("d", state="quarantined"), "quarantined", Tone.BAD),
        (device("d", model(regressed="p90 doubled")), "regressed: p90 doubled", Tone.BAD),
        (device("d", model(state="failed", attempted_version="2", reason="no space")), "failed 2: no space", Tone.BAD),
        (device("d", model(healthy=False)), "unhealthy: it does not serve", Tone.BAD),
        (device("d", online=False, last_seen_ms=NOW_MS - 180_000), "offline 3 min", Tone.BUSY),
        (device("d", online=False, last_seen_ms=None), "offline", Tone.BUSY),
        (device("d", model(state="trial", attempted_version="2.0.0")), "trial 2.0.0", Tone.BUSY),
        (device("d", throttled=True), "committed, throttled", Tone.BUSY),
        (device("d"), "committed", Tone.GOOD),
        (device("d", model(state="something new")), "something new", Tone.PLAIN),
    ],
)  # fmt: skip
def test_the_state_tells_the_one_thing_to_know(view: object, text: str, tone: Tone) -> None:
    assert state_span(view, view.models[0], NOW_MS) == (text, tone)  # type: ignore[attr-defined,arg-type]


def test_an_unsigned_bundle_is_red_and_marked_by_more_than_colour() -> None:
    row = dict(zip((column.key for column in device_rows.COLUMNS), cells(
        entries([device("d", model(signed=False))])[0], NOW_MS, UNICODE), strict=True))  # fmt: skip
    assert row["bundle"] == ("!digits 1.0.0", Tone.BAD)


def test_a_latency_of_the_race_is_marked_and_one_of_service_is_not() -> None:
    position = [column.key for column in device_rows.COLUMNS].index("p90")
    assert cells(entries([device("d")])[0], NOW_MS, UNICODE)[position] == ("0.254", Tone.PLAIN)
    raced = entries([device("d", model(p90_ms=None))])[0]
    assert cells(raced, NOW_MS, UNICODE)[position] == ("0.240r", Tone.FAINT)


def test_names_are_ordered_as_people_count() -> None:
    rows = entries([device("edge-10"), device("edge-9"), device("Edge-1")])
    assert named(ordered(rows, "device", descending=False)) == ["Edge-1", "edge-9", "edge-10"]


def test_what_has_no_value_comes_last_both_ways() -> None:
    rows = entries([device("a", budget_cpus=None), device("b", budget_cpus=1.0), device("c", budget_cpus=4.0)])
    assert named(ordered(rows, "cpus", descending=False)) == ["b", "c", "a"]
    assert named(ordered(rows, "cpus", descending=True)) == ["c", "b", "a"]


@pytest.mark.parametrize("column", [column.key for column in device_rows.COLUMNS])
def test_every_column_can_be_sorted_by_whatever_is_missing(column: str) -> None:
    rows = entries(
        [
            device("a", models=[], board=None, budget_cpus=None),
            device("b", model(version=None, backend=None, p90_ms=None, race_p90_ms=None, state=None)),
            device("c", model(backend=backend("tflite", "fp32", 4))),
            device("7", model(version="10.0.0"), online=False),
        ]
    )
    assert sorted(named(ordered(rows, column, descending=True))) == ["7", "a", "b", "c"]


def test_trouble_comes_first_when_sorted_by_state() -> None:
    rows = entries([device("fine"), device("away", online=False), device("ill", model(regressed="slow"))])
    assert named(ordered(rows, "state", descending=False)) == ["ill", "away", "fine"]


def test_a_search_looks_into_labels_backends_and_states() -> None:
    rows = entries([device("a", labels={"site": "lyon"}), device("b", model(backend=backend("tflite")), online=False)])
    assert named(matching(rows, "site=lyon")) == ["a"]
    assert named(matching(rows, "TFLITE offline")) == ["b"]
    assert named(matching(rows, "tflite online")) == []
    assert named(matching(rows, "  ")) == ["a", "b"]
