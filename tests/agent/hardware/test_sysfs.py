from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.hardware.sysfs import Machine, recorded_machine
from tests.agent.hardware.recording import record


def test_an_absolute_link_in_a_recorded_tree_stays_in_the_tree(tmp_path: Path) -> None:
    machine = record(tmp_path, {"sys/devices/gpu/name": "recorded\n"})
    (tmp_path / "sys/class").mkdir()
    (tmp_path / "sys/class/gpu").symlink_to("/sys/devices/gpu")
    assert machine.text("sys/class/gpu/name") == "recorded"


def test_a_link_to_this_machines_files_finds_nothing(tmp_path: Path) -> None:
    machine = recorded_machine(tmp_path)
    (tmp_path / "secret").symlink_to("/etc/hostname")
    (tmp_path / "up").symlink_to("../../../../../../etc/hostname")
    (tmp_path / "etc").symlink_to("/etc")
    assert machine.text("secret") is None
    assert machine.text("up") is None
    assert machine.text("etc/hostname") is None
    assert machine.names("etc") == []


def test_links_in_a_circle_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert recorded_machine(tmp_path).text("a") is None


def test_the_name_of_a_driver_is_read_though_its_folder_was_not_recorded(tmp_path: Path) -> None:
    machine = record(tmp_path, {"sys/devices/x/vendor": "0x8086"})
    (tmp_path / "sys/devices/x/driver").symlink_to("../../../bus/pci/drivers/i915")
    assert machine.link_name("sys/devices/x/driver") == "i915"
    assert machine.link_name("sys/devices/x/vendor") is None


def test_a_pipe_in_a_recorded_tree_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "temp")
    assert recorded_machine(tmp_path).text("temp") is None


def test_nul_ended_texts_and_lists_are_split(tmp_path: Path) -> None:
    machine = record(tmp_path, {"model": b"ROCK 5B\0", "compatible": b"radxa,rock-5b\0rockchip,rk3588\0"})
    assert machine.text("model") == "ROCK 5B"
    assert machine.strings("compatible") == ["radxa,rock-5b", "rockchip,rk3588"]


@pytest.mark.parametrize(("content", "number"), [("12\n", 12), ("0x1f", 31), ("-1", -1), ("", None), ("x", None)])
def test_a_number_alone_in_a_file(tmp_path: Path, content: str, number: int | None) -> None:
    assert record(tmp_path, {"n": content}).integer("n") == number


def test_a_damaged_cpu_list_is_unknown_and_named(tmp_path: Path) -> None:
    machine = record(tmp_path, {"online": "zero\n"})
    assert machine.cpus("online") is None
    assert machine.warnings == ["online: not a CPU list: 'zero'"]


def test_names_come_in_numeric_order(tmp_path: Path) -> None:
    machine = record(tmp_path, {f"z/zone{n}": "" for n in (10, 9, 1)})
    assert machine.names("z") == ["zone1", "zone9", "zone10"]


def test_nothing_is_executed_for_a_recorded_machine(tmp_path: Path) -> None:
    def run(argv: object, timeout_s: float) -> str:
        raise AssertionError("executed")

    machine = Machine(root=tmp_path, live=False, run=run)
    assert machine.output(("nvidia-smi",), ("nvidia-smi",)) is None


def test_a_live_machine_reads_no_recordings(tmp_path: Path) -> None:
    record(tmp_path, {"_outputs/nvpmodel.txt": "NV Power Mode: 15W"})
    machine = Machine(root=tmp_path, live=True, run=lambda argv, timeout_s: None)
    assert machine.output(("nvpmodel", "-q"), ("nvpmodel",)) is None
    assert machine.recorded("nvpmodel") is None
