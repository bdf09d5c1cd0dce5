from __future__ import annotations

from pathlib import Path

import pytest

from agent.hardware.probe import probe
from agent.hardware.probers.power import parse_nvpmodel
from agent.hardware.sysfs import Machine
from tests.agent.hardware.recording import SAMPLES, record


@pytest.mark.parametrize("sample", ["q-short-nx", "q-verbose-xavier-nx"])
def test_the_mode_of_a_jetson(sample: str) -> None:
    assert parse_nvpmodel((SAMPLES / "nvpmodel" / f"{sample}.txt").read_text()) == "MODE_15W_6CORE"


def test_a_warning_before_the_mode_is_skipped() -> None:
    assert parse_nvpmodel("NVPM WARN: fan mode is not set!\nNV Power Mode: 15W\n0\n") == "15W"


def test_the_state_file_is_read_before_anything_is_executed(tmp_path: Path) -> None:
    record(
        tmp_path,
        {
            "var/lib/nvpmodel/status": "pmode:0002\n",
            "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=MODE_30W >\n",
        },
    )

    def run(argv: object, timeout_s: float) -> str:
        raise AssertionError("executed")

    assert probe(Machine(root=tmp_path, live=True, run=run)).power_mode == "MODE_30W"


def test_the_tool_is_asked_where_the_state_is_silent(tmp_path: Path) -> None:
    record(tmp_path, {"etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=MAXN >\n"})
    machine = Machine(root=tmp_path, live=True, run=lambda argv, timeout_s: "NV Power Mode: 7W\n1\n")
    assert probe(machine).power_mode == "7W"


def test_a_pc_has_its_firmwares_profile(tmp_path: Path) -> None:
    assert probe(record(tmp_path, {"sys/firmware/acpi/platform_profile": "balanced\n"})).power_mode == "balanced"


def test_a_board_without_modes_has_none(tmp_path: Path) -> None:
    assert probe(record(tmp_path, {"proc/meminfo": ""})).power_mode is None
