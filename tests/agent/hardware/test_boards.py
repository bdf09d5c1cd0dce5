"""Every recorded board against what is known about it (expected.json has field names of its own)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent.hardware.probe import probe
from agent.hardware.sysfs import recorded_machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind, AcceleratorStatus, Capabilities, CpuCluster
from tests.agent.hardware.recording import BOARDS

NAMES = sorted(path.name for path in BOARDS.iterdir())
MEMORY_TOLERANCE = 0.02
"""free(1) rounds to whole GiB, and expected.json calls such figures approximate."""


def facts_of(name: str) -> tuple[Capabilities, dict[str, Any], list[str]]:
    machine = recorded_machine(BOARDS / name)
    expected = json.loads((BOARDS / name / "expected.json").read_text())
    return probe(machine), expected, machine.warnings


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_board_is_named_right(name: str) -> None:
    facts, expected, warnings = facts_of(name)
    assert facts.board.model is not None
    assert facts.board.model.startswith(expected["board"])
    if "soc" in expected:
        assert facts.board.soc == expected["soc"]
    if "cpu" in expected:
        assert facts.cpu.model == facts.board.soc == expected["cpu"]
    assert facts.board.profile is not None
    assert not facts.board.profile.startswith("generic")
    assert warnings == []


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_board_has_its_kernel_and_userland(name: str) -> None:
    facts, expected, _ = facts_of(name)
    assert facts.os.kernel_arch == expected["kernel_arch"]
    if "userland_bits" in expected:
        assert facts.os.userland_bits == expected["userland_bits"]
    if expected.get("is_32bit_userland_on_64bit_kernel"):
        assert facts.os.userland_arch == "armv7l"
    if "l4t" in expected:
        assert facts.os.firmware == f"L4T {expected['l4t']} (JetPack {expected['jetpack']})"


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_board_has_its_cores(name: str) -> None:
    facts, expected, _ = facts_of(name)
    assert facts.cpu.logical_cpus == expected["logical_cpus"]
    assert facts.cpu.physical_cores == expected.get("physical_cores", expected.get("physical_cores_online"))
    if "logical_cpu_ids" in expected:
        assert facts.cpu.online == expected["logical_cpu_ids"]
    assert len(facts.cpu.clusters) == len(expected["clusters"])
    by_cpus = {cluster.logical_cpus: cluster for cluster in facts.cpu.clusters}
    for index, wanted in enumerate(expected["clusters"]):
        found = by_cpus[wanted["logical_cpus"]] if wanted["logical_cpus"] else facts.cpu.clusters[index]
        assert_cluster(found, wanted, clock_is_recorded=name != "rpi-zero-2-w")


def assert_cluster(found: CpuCluster, wanted: dict[str, Any], clock_is_recorded: bool) -> None:
    core = wanted["core"].removesuffix(" (offline)")
    assert found.core is not None
    assert found.core.startswith(core)
    assert found.cores == wanted["cores"]
    assert found.online is not True if wanted.get("online") is False else found.online is not False
    if "part" in wanted:
        assert found.part is not None
        assert found.part.endswith(f"/{wanted['part']}")
    if "max_mhz" in wanted and clock_is_recorded:
        assert found.max_mhz == wanted["max_mhz"]
    if "threads_per_core" in wanted:
        assert found.threads_per_core == wanted["threads_per_core"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_board_has_its_features(name: str) -> None:
    facts, expected, _ = facts_of(name)
    for feature, present in expected["features"].items():
        assert facts.cpu.features[feature] is present, feature


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_board_has_its_memory(name: str) -> None:
    facts, expected, _ = facts_of(name)
    exact = expected.get("memory_mb_total_visible")
    approximate = expected.get("memory_mb_total_visible_approx")
    if exact is not None:
        assert facts.memory.total_mb == exact
    if approximate is not None:
        assert facts.memory.total_mb == pytest.approx(approximate, rel=MEMORY_TOLERANCE)
    if "memory_mb_nominal" in expected and name.startswith("rpi"):
        assert facts.memory.nominal_mb == expected["memory_mb_nominal"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_board_has_its_accelerators(name: str) -> None:
    facts, expected, _ = facts_of(name)
    if "gpu" in expected:
        gpu = only(facts, AcceleratorKind.GPU)
        words = set(re.findall(r"\w+", f"{gpu.vendor} {gpu.name}"))
        assert set(re.findall(r"\w+", expected["gpu"].partition("(")[0])) <= words
    if expected.get("npu") is None and "npu" in expected:
        assert not any(found.kind is AcceleratorKind.NPU for found in facts.accelerators)
    elif isinstance(expected.get("npu"), str):
        assert only(facts, AcceleratorKind.NPU).name.startswith("RKNPU")  # type: ignore[union-attr]
    elif "npu" in expected:
        assert_npu(only(facts, AcceleratorKind.NPU), expected["npu"])


def only(facts: Capabilities, kind: AcceleratorKind) -> Accelerator:
    found = [accelerator for accelerator in facts.accelerators if accelerator.kind is kind]
    assert len(found) == 1
    return found[0]


def assert_npu(found: Accelerator, wanted: dict[str, Any]) -> None:
    assert (found.vendor, found.name, found.status) == (wanted["vendor"], wanted["name"], AcceleratorStatus.USABLE)
    ours = {
        "driver": found.driver,
        "device_node": found.device_node,
        "count": found.count,
        "health": found.health,
        "memory_mb_used": found.memory_used_mb,
        "memory_mb_total": found.memory_mb,
        "temp_c": found.temp_c,
        "power_w": found.power_w,
    }
    for key in ours.keys() & wanted.keys():
        assert ours[key] == wanted[key], key
    if "pci_id" in wanted:
        assert f"pci {wanted['pci_id']}" in (found.bus_id or "")


def test_both_power_modes_of_a_tx2_show_the_same_silicon(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    recorded = BOARDS / "jetson-tx2-denver-offline/_alt/proc/cpuinfo.mode-0"
    (tmp_path / "proc/cpuinfo").write_bytes(recorded.read_bytes())
    all_on = probe(recorded_machine(tmp_path))
    some_off, _, _ = facts_of("jetson-tx2-denver-offline")
    shape = {(cluster.core, cluster.logical_cpus, cluster.part) for cluster in all_on.cpu.clusters}
    assert shape == {(cluster.core, cluster.logical_cpus, cluster.part) for cluster in some_off.cpu.clusters}
    assert all_on.board == some_off.board


def test_the_profile_of_a_board_names_its_big_cores() -> None:
    from edge_contracts.profiles import load_profiles

    facts, expected, _ = facts_of("rock-5b-rk3588")
    profile = next(profile for profile in load_profiles() if profile.name == facts.board.profile)
    assert profile.cpu.big_cores == expected["big_cpus"]
