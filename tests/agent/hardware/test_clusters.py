"""Clusters of boards that are not among the recordings: big.LITTLE, hybrid x86, SMT, offline CPUs, unknown parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.hardware.probe import probe
from edge_contracts.capabilities import CpuFacts, topology_key
from tests.agent.hardware.recording import CPU, arm_cpuinfo, record, x86_cpuinfo

A53, A73, A7, A15 = ("0x41", "0xd03"), ("0x41", "0xd09"), ("0x41", "0xc07"), ("0x41", "0xc0f")
CARMEL, A78AE = ("0x4e", "0x004"), ("0x41", "0xd42")


def cpu_of(root: Path, files: Mapping[str, str]) -> CpuFacts:
    return probe(record(root, files)).cpu


def shape(cpu: CpuFacts) -> list[tuple[str | None, int | None, str | None]]:
    return [(cluster.core, cluster.cores, cluster.logical_cpus) for cluster in cpu.clusters]


def policies(*groups: str) -> dict[str, str]:
    firsts = [group.replace("-", " ").replace(",", " ").split()[0] for group in groups]
    return {f"{CPU}/cpufreq/policy{n}/related_cpus": group for n, group in zip(firsts, groups, strict=True)}


def test_an_odroid_n2_has_one_package_and_two_clusters(tmp_path: Path) -> None:
    parts = {0: A53, 1: A53, 2: A73, 3: A73, 4: A73, 5: A73}
    files = {"proc/cpuinfo": arm_cpuinfo(parts), f"{CPU}/online": "0-5", **policies("0 1", "2 3 4 5")}
    files.update({f"{CPU}/cpu{n}/topology/physical_package_id": "0" for n in range(6)})
    cpu = cpu_of(tmp_path, files)
    assert shape(cpu) == [("Cortex-A53", 2, "0-1"), ("Cortex-A73", 4, "2-5")]
    assert cpu.physical_cores == 6


def test_an_odroid_xu4_keeps_cpu_order_though_its_packages_run_backwards(tmp_path: Path) -> None:
    parts = {n: A7 if n < 4 else A15 for n in range(8)}
    files = {"proc/cpuinfo": arm_cpuinfo(parts, "half thumb neon vfpv4", 7), f"{CPU}/online": "0-7"}
    files.update({f"{CPU}/cpu{n}/topology/physical_package_id": "1" if n < 4 else "0" for n in range(8)})
    assert shape(cpu_of(tmp_path, files)) == [("Cortex-A7", 4, "0-3"), ("Cortex-A15", 4, "4-7")]


def test_a_xavier_has_its_cores_in_pairs(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": arm_cpuinfo(dict.fromkeys(range(6), CARMEL)), **policies("0 1", "2 3", "4 5")}
    clusters = cpu_of(tmp_path, files).clusters
    assert [cluster.logical_cpus for cluster in clusters] == ["0-1", "2-3", "4-5"]
    assert {cluster.core for cluster in clusters} == {"NVIDIA Carmel (0x4e/0x004)"}


def test_an_orin_with_cores_switched_off_shows_them_as_off(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": arm_cpuinfo(dict.fromkeys((0, 1, 2, 3, 4), A78AE)),
        f"{CPU}/online": "0-4",
        f"{CPU}/present": "0-7",
        **policies("0 1 2 3", "4 5 6 7"),
    }
    cpu = cpu_of(tmp_path, files)
    assert cpu.physical_cores == cpu.logical_cpus == 5
    assert [(c.core, c.logical_cpus, c.online) for c in cpu.clusters] == [
        ("Cortex-A78AE", "0-3", True),
        ("Cortex-A78AE", "4", True),
        ("Cortex-A78AE", "5-7", False),
    ]


@pytest.mark.parametrize(("implementer", "part"), [("0x00", "0xd02"), ("0x41", "0xfff"), ("0x99", "0x123")])
def test_an_unknown_part_is_shown_as_its_number(tmp_path: Path, implementer: str, part: str) -> None:
    cpu = cpu_of(tmp_path, {"proc/cpuinfo": arm_cpuinfo({0: (implementer, part)})})
    assert cpu.clusters[0].core == f"{implementer}/{part}"


def test_blank_lines_within_a_record_do_not_split_it(tmp_path: Path) -> None:
    text = (
        "processor\t: 0\nFeatures\t: fp asimd\n\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
        "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n"
    )
    assert shape(cpu_of(tmp_path, {"proc/cpuinfo": text})) == [("Cortex-A55", 2, "0-1")]


def test_an_old_kernel_describes_all_cpus_once_at_the_end(tmp_path: Path) -> None:
    text = (
        "Processor\t: ARMv7 Processor rev 3 (v7l)\nprocessor\t: 0\nBogoMIPS\t: 84.00\n\n"
        "processor\t: 1\nBogoMIPS\t: 84.00\n\n"
        "Features\t: swp half thumb neon\nCPU implementer\t: 0x41\nCPU architecture: 7\nCPU part\t: 0xc0f\n\n"
        "Hardware\t: ODROID-XU3\n"
    )
    cpu = cpu_of(tmp_path, {"proc/cpuinfo": text})
    assert shape(cpu) == [("Cortex-A15", 2, "0-1")]
    assert cpu.features["neon"] is True


def test_the_register_of_a_cpu_outranks_cpuinfo(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": arm_cpuinfo({0: A53}), f"{CPU}/cpu0/regs/identification/midr_el1": "0x00000000414fd0b1\n"}
    assert shape(cpu_of(tmp_path, files)) == [("Cortex-A76", 1, "0")]


def test_clocks_per_core_do_not_make_clusters(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": arm_cpuinfo(dict.fromkeys(range(4), A53)), **policies("0", "1", "2", "3")}
    assert shape(cpu_of(tmp_path, files)) == [("Cortex-A53", 4, "0-3")]


def test_a_virtual_machine_with_a_package_per_cpu_is_one_cluster(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": arm_cpuinfo(dict.fromkeys(range(4), ("0x41", "0xd0c")))}
    files.update({f"{CPU}/cpu{n}/topology/physical_package_id": str(n) for n in range(4)})
    assert shape(cpu_of(tmp_path, files)) == [("Neoverse-N1", 4, "0-3")]


def test_capacity_tells_the_strongest_cluster(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": arm_cpuinfo({0: A53, 1: A73}), **policies("0", "1")}
    files.update({f"{CPU}/cpu0/cpu_capacity": "446", f"{CPU}/cpu1/cpu_capacity": "1024"})
    assert [cluster.capacity for cluster in cpu_of(tmp_path, files).clusters] == [446, 1024]


def test_two_threads_per_core_are_counted_once(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": x86_cpuinfo(4, 0x8E), f"{CPU}/online": "0-3"}
    files.update({f"{CPU}/cpu{n}/topology/thread_siblings_list": f"{n % 2},{n % 2 + 2}" for n in range(4)})
    cpu = cpu_of(tmp_path, files)
    assert shape(cpu) == [("Kaby Lake", 2, "0-3")]
    assert (cpu.physical_cores, cpu.logical_cpus, cpu.clusters[0].threads_per_core) == (2, 4, 2)


def test_a_hybrid_cpu_is_split_by_the_kernels_own_lists(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": x86_cpuinfo(8, 0x9A),
        "sys/devices/cpu_core/cpus": "0-3",
        "sys/devices/cpu_atom/cpus": "4-7",
    }
    files.update({f"{CPU}/cpu{n}/topology/core_cpus_list": f"{n - n % 2}-{n - n % 2 + 1}" for n in range(4)})
    files.update({f"{CPU}/cpu{n}/topology/core_cpus_list": str(n) for n in range(4, 8)})
    cpu = cpu_of(tmp_path, files)
    assert shape(cpu) == [("Golden Cove (P)", 2, "0-3"), ("Gracemont (E)", 4, "4-7")]
    assert cpu.physical_cores == 6


def test_a_hybrid_cpu_without_lists_is_split_by_clock(tmp_path: Path) -> None:
    clocks = {0: 5700, 1: 5500, 2: 4600, 3: 4600}
    files = {"proc/cpuinfo": x86_cpuinfo(4, 0xC6)}
    files.update({f"{CPU}/cpu{n}/cpufreq/cpuinfo_max_freq": str(mhz * 1000) for n, mhz in clocks.items()})
    files.update({f"{CPU}/cpu{n}/topology/core_cpus_list": str(n) for n in clocks})
    assert shape(cpu_of(tmp_path, files)) == [("Lion Cove (P)", 2, "0-1"), ("Skymont (E)", 2, "2-3")]


def test_a_hybrid_cpu_of_a_future_model_still_has_its_kinds(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": x86_cpuinfo(2, 0xEE), "sys/devices/cpu_core/cpus": "0", "sys/devices/cpu_atom/cpus": "1"}
    assert [c.core for c in cpu_of(tmp_path, files).clusters] == [
        "P-core, family 0x6 model 0xee",
        "E-core, family 0x6 model 0xee",
    ]


def test_lscpu_names_a_core_only_where_all_cpus_are_alike(tmp_path: Path) -> None:
    listing = "Architecture: aarch64\nOn-line CPU(s) list: 0-3\nModel name: Cortex-A55\nThread(s) per core: 1\n"
    alike = record(tmp_path / "alike", {"_outputs/lscpu.txt": listing})
    unlike = record(tmp_path / "unlike", {"_outputs/lscpu.txt": listing, **policies("0 1", "2 3")})
    assert shape(probe(alike).cpu) == [("Cortex-A55", 4, "0-3")]
    assert [cluster.core for cluster in probe(unlike).cpu.clusters] == [None, None]


def test_the_topology_key_follows_the_silicon_and_not_the_moment(tmp_path: Path) -> None:
    files = {"proc/cpuinfo": arm_cpuinfo({0: A53, 1: A53})}
    first = probe(record(tmp_path / "a", files))
    limited = probe(record(tmp_path / "b", {**files, "sys/fs/cgroup/cpu.max": "50000 100000"}))
    other = probe(record(tmp_path / "c", {"proc/cpuinfo": arm_cpuinfo({0: A73, 1: A73})}))
    assert topology_key(first) == topology_key(limited)
    assert topology_key(first) != topology_key(other)
