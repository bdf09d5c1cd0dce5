"""Quota and memory limits, v1 and v2; the broken files are those of automaxprocs' and num_cpus' test data."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.hardware.budget import threads_of
from agent.hardware.probe import probe
from agent.hardware.probers import cgroup_limits
from edge_contracts.capabilities import BudgetSource
from tests.agent.hardware.recording import CPU, arm_cpuinfo, record

V2_MOUNT = "5 4 0:4 / /sys/fs/cgroup rw,nosuid shared:5 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = (
    "6 5 0:5 / /sys/fs/cgroup/cpuset rw shared:6 - cgroup cgroup rw,cpuset\n"
    "7 5 0:6 /docker /sys/fs/cgroup/cpu,cpuacct rw shared:7 shared:8 - cgroup cgroup rw,cpu,cpuacct\n"
    "8 5 0:7 /docker /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
V1_CPU = "sys/fs/cgroup/cpu,cpuacct"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("250000 100000", 2.5), ("400000 100000\n", 4.0), ("500000", 5.0), ("max 100000", None), ("max", None)],
)
def test_a_v2_quota_is_read(tmp_path: Path, text: str, cpus: float | None) -> None:
    machine = record(tmp_path, {"sys/fs/cgroup/cpu.max": text})
    assert cgroup_limits.cpu_quota(machine) == cpus
    assert machine.warnings == []


@pytest.mark.parametrize(
    "text",
    ["", "\n", "asdf 100000", "500000 njn", "250000 100000 100", "250000 0", "0 100000", "x y z", "-1", "-5 -5", "²"],
)
def test_a_broken_v2_quota_is_no_limit_and_a_warning(tmp_path: Path, text: str) -> None:
    machine = record(tmp_path, {"sys/fs/cgroup/cpu.max": text, f"{CPU}/online": "0-3"})
    facts = probe(machine)
    assert facts.cpu.budget_cpus == 4.0
    assert len(machine.warnings) == 1
    assert "/sys/fs/cgroup/cpu.max" in machine.warnings[0]


@pytest.mark.parametrize(
    ("quota", "period", "cpus", "warns"),
    [
        ("600000", "100000", 6.0, False),
        ("150000\n", "100000\n\n", 1.5, False),
        ("-1", "100000", None, False),
        ("600000", "0", None, True),
        ("non-an-integer", "100000", None, True),
        ("", "100000", None, True),
        ("800000", None, None, True),
    ],
)
def test_a_v1_quota_is_read(tmp_path: Path, quota: str, period: str | None, cpus: float | None, warns: bool) -> None:
    files = {
        "proc/self/mountinfo": V1_MOUNT,
        "proc/self/cgroup": "3:memory:/docker/large\n2:cpu,cpuacct:/docker\n1:cpuset:/\n",
        f"{V1_CPU}/cpu.cfs_quota_us": quota,
    }
    if period is not None:
        files[f"{V1_CPU}/cpu.cfs_period_us"] = period
    machine = record(tmp_path, files)
    assert cgroup_limits.cpu_quota(machine) == cpus
    assert bool(machine.warnings) is warns


def test_the_limit_of_a_parent_counts(tmp_path: Path) -> None:
    machine = record(
        tmp_path,
        {
            "proc/self/mountinfo": V2_MOUNT,
            "proc/self/cgroup": "0::/pod/app\n",
            "sys/fs/cgroup/pod/app/cpu.max": "max 100000",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000",
            "sys/fs/cgroup/cpu.max": "400000 100000",
            "sys/fs/cgroup/pod/app/memory.max": "max",
            "sys/fs/cgroup/pod/memory.max": str(256 << 20),
        },
    )
    assert cgroup_limits.cpu_quota(machine) == 1.5
    assert cgroup_limits.memory_limit_bytes(machine) == 256 << 20


@pytest.mark.parametrize("group", ["0::/not/visible/here\n", "0::/../../escape\n", "0\\using\\colons\\/\n", ""])
def test_a_group_that_is_not_visible_leaves_the_mounts_own_limit(tmp_path: Path, group: str) -> None:
    machine = record(
        tmp_path,
        {
            "proc/self/mountinfo": V2_MOUNT,
            "proc/self/cgroup": group,
            "sys/fs/cgroup/cpu.max": "50000 100000",
            "escape/cpu.max": "1 100000",
        },
    )
    assert cgroup_limits.cpu_quota(machine) == 0.5


def test_a_broken_mountinfo_falls_back_to_the_usual_places(tmp_path: Path) -> None:
    machine = record(
        tmp_path,
        {
            "proc/self/mountinfo": "1 0 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
    )
    assert cgroup_limits.cpu_quota(machine) == 2.0


def test_half_a_cpu_is_one_thread(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/cpu.max": "50000 100000",
        f"{CPU}/online": "0",
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: any\n",
    }
    facts = probe(record(tmp_path, files))
    assert (facts.cpu.budget_cpus, facts.cpu.budget_source) == (0.5, BudgetSource.CGROUP)
    assert threads_of(facts.cpu.budget_cpus) == 1


def test_lxcfs_hides_cpus_in_cpuinfo_only(tmp_path: Path) -> None:
    facts = probe(record(tmp_path, {f"{CPU}/online": "0-55", "proc/cpuinfo": "processor\t: 0\nmodel name\t: any\n"}))
    assert facts.cpu.budget_cpus == 1.0
    assert facts.cpu.logical_cpus == 56


def test_a_cpu_set_limits_the_budget(tmp_path: Path) -> None:
    files = {f"{CPU}/online": "0-7", "sys/fs/cgroup/cpuset.cpus.effective": "4-5\n"}
    facts = probe(record(tmp_path, files))
    assert (facts.cpu.budget_cpus, facts.cpu.budget_source) == (2.0, BudgetSource.AFFINITY)


def test_the_affinity_of_the_recorded_process_limits_the_budget(tmp_path: Path) -> None:
    cpuinfo = arm_cpuinfo(dict.fromkeys(range(4), ("0x41", "0xd08")))
    facts = probe(
        record(tmp_path, {"proc/cpuinfo": cpuinfo, "proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-2\n"})
    )
    assert (facts.cpu.budget_cpus, facts.cpu.budget_source) == (3.0, BudgetSource.AFFINITY)


def test_a_pi_without_the_memory_controller_has_no_limit(tmp_path: Path) -> None:
    files = {
        "proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t8\t87\t0\n",
        "proc/meminfo": "MemTotal:  949448 kB\nMemAvailable:  700000 kB\n",
    }
    facts = probe(record(tmp_path, files))
    assert facts.memory.limit_mb is None
    assert facts.memory.total_mb == 927


@pytest.mark.parametrize("text", ["0", "0B", "", "many"])
def test_a_broken_memory_limit_is_no_limit_and_a_warning(tmp_path: Path, text: str) -> None:
    machine = record(tmp_path, {"sys/fs/cgroup/memory.max": text, "proc/meminfo": "MemTotal: 4096 kB\n"})
    assert probe(machine).memory.limit_mb is None
    assert any("memory.max" in warning for warning in machine.warnings)


def test_v1_without_a_limit_says_so_with_a_huge_number(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "proc/meminfo": "MemTotal: 8192000 kB\n",
    }
    machine = record(tmp_path, files)
    assert probe(machine).memory.limit_mb is None
    assert machine.warnings == []


def test_available_memory_is_what_the_group_has_left(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 12000000 kB\n",
        "sys/fs/cgroup/memory.max": str(512 << 20),
        "sys/fs/cgroup/memory.current": str(300 << 20),
        "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {100 << 20}\n",
    }
    memory = probe(record(tmp_path, files)).memory
    assert (memory.limit_mb, memory.available_mb) == (512, 312)
