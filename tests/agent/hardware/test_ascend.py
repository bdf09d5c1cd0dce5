"""Tables of npu-smi of several versions and chips (samples/SOURCE.txt has what each one says)."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.hardware.probe import probe
from agent.hardware.probers.accelerators.ascend import Chip, parse_info
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import AcceleratorStatus
from tests.agent.hardware.recording import SAMPLES, record


def chips(name: str) -> list[Chip]:
    return parse_info((SAMPLES / "npu-smi" / f"{name}.txt").read_text())


@pytest.mark.parametrize(
    ("sample", "chip"),
    [
        ("310-22.0.4-fullwidth-parens", Chip(0, "310", "OK", 12.8, 51.0, None, 5745, 7757)),
        ("310-23.0.0-pcie", Chip(0, "310", "OK", 12.8, 61.0, "0000:01:00.0", 577, 7759)),
        ("310b4-23.0.rc3-narrow", Chip(0, "310B4", "OK", 7.7, 54.0, None, 2166, 3513)),
        ("310b1-23.0.rc3", Chip(0, "310B1", "OK", 9.2, 53.0, None, 3841, 11577)),
        ("310b4-23.0.0-alarm-power0-trailing-blanks", Chip(0, "310B4", "Alarm", 0.0, 65.0, None, 3628, 15609)),
    ],
)
def test_one_chip(sample: str, chip: Chip) -> None:
    assert chips(sample) == [chip]


def test_two_cards_with_their_memory_in_the_hbm_column() -> None:
    found = chips("910b2c-two-cards-hbm")
    assert [(chip.npu, chip.bus, chip.memory_total_mb) for chip in found] == [
        (0, "0000:5A:00.0", 65536),
        (1, "0000:19:00.0", 65536),
    ]


def test_two_dies_of_which_one_has_no_power_figure() -> None:
    assert [chip.power_w for chip in chips("910-dual-die-power-dash")] == [162.8, None]


def test_another_listing_of_the_tool_has_no_chips() -> None:
    assert chips("info-l-and-board") == []


def test_chips_without_a_bus_id_stay_apart(tmp_path: Path) -> None:
    table = (SAMPLES / "npu-smi/310b1-23.0.rc3.txt").read_text()
    facts = probe(record(tmp_path, {"_outputs/npu-smi-info.txt": table + table}))
    assert len(facts.accelerators) == 2


def test_a_card_in_a_server_is_no_atlas_200(tmp_path: Path) -> None:
    table = (SAMPLES / "npu-smi/310-23.0.0-pcie.txt").read_text()
    facts = probe(record(tmp_path, {"_outputs/npu-smi-info.txt": table, "proc/sys/kernel/arch": "aarch64"}))
    assert facts.board.profile == "generic-aarch64"


def test_an_alarm_is_told(tmp_path: Path) -> None:
    table = (SAMPLES / "npu-smi/310b4-23.0.0-alarm-power0-trailing-blanks.txt").read_text()
    facts = probe(record(tmp_path, {"_outputs/npu-smi-info.txt": table}))
    assert facts.accelerators[0].detail == "npu-smi says health Alarm"
    assert facts.board.profile == "atlas-200i-dk-a2"


def test_a_node_without_an_answering_tool_is_still_an_npu(tmp_path: Path) -> None:
    record(tmp_path, {"dev/davinci0": "", "dev/davinci_manager": ""})
    asked = []

    def silent(argv: object, timeout_s: float) -> None:
        asked.append(argv)

    found = probe(Machine(root=tmp_path, live=True, run=silent)).accelerators
    assert [(a.vendor, a.status) for a in found] == [("Huawei", AcceleratorStatus.USABLE)]
    assert asked == [("npu-smi", "info")]
