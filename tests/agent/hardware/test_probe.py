from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.hardware.probe import guarded, probe
from agent.hardware.probers.memory import MemoryProber
from agent.hardware.sysfs import Machine, recorded_machine, this_machine
from edge_contracts.capabilities import Capabilities, MemoryFacts, RuntimeFact, decode, to_json_bytes
from tests.agent.hardware.recording import CPU, record

PROBE_LIMIT_S = 1.0


class FailingProber:
    name = "memory"

    def probe(self, machine: Machine) -> MemoryFacts:
        raise ZeroDivisionError("a file nobody expected")


def test_a_failing_prober_costs_its_own_facts_and_is_named(tmp_path: Path) -> None:
    machine = record(tmp_path, {"proc/meminfo": "MemTotal: 2048 kB\n"})
    assert guarded(machine, FailingProber(), MemoryFacts()) == MemoryFacts()
    assert guarded(machine, MemoryProber(), MemoryFacts()).total_mb == 2
    assert machine.warnings == ["memory: not known, the prober failed: ZeroDivisionError: a file nobody expected"]


def test_an_empty_tree_is_all_unknown_and_nothing_of_this_machine(tmp_path: Path) -> None:
    assert probe(recorded_machine(tmp_path)) == Capabilities()


def test_the_runtimes_given_are_the_runtimes_told(tmp_path: Path) -> None:
    runtimes = [RuntimeFact(name="onnxruntime", version="1.23.2", targets=["cpu"], status="usable")]
    assert probe(recorded_machine(tmp_path), runtimes).runtimes == runtimes


FILES = (
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/self/status",
    "etc/os-release",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/memory.max",
    f"{CPU}/online",
    f"{CPU}/present",
    f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq",
    f"{CPU}/cpu0/topology/thread_siblings_list",
    f"{CPU}/cpu0/cpu_capacity",
    f"{CPU}/cpufreq/policy0/related_cpus",
    "proc/device-tree/model",
    "proc/device-tree/compatible",
    "sys/class/dmi/id/product_name",
    "sys/class/thermal/thermal_zone0/temp",
    "sys/class/thermal/thermal_zone0/type",
    "sys/bus/pci/devices/0000:00:02.0/uevent",
    "sys/bus/pci/devices/0000:00:02.0/vendor",
    "etc/nv_tegra_release",
    "sys/bus/usb/devices/1-1/idVendor",
    "_outputs/lscpu.txt",
    "_outputs/npu-smi-info.txt",
    "_outputs/free-h.txt",
    "_outputs/lspci.txt",
    "_outputs/nvpmodel.txt",
    "_outputs/vcgencmd.txt",
    "_outputs/uname-rm.txt",
    "bin/sh",
)
CONTENT = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"0",
            b"-1",
            b"0-3",
            b"9-1",
            b"max",
            b"0x41",
            b"processor : 0\nCPU part : zz\nCPU implementer : 0x41",
            b"\0\0",
            b"1" * 5000,
            b"| 0 310 | OK | - |\n| 0 | NA | / |\n",
            b"4294967296",
            b"0-8191",
        ]
    ),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(st.sampled_from(FILES), CONTENT, max_size=12))
def test_no_content_of_any_file_makes_a_prober_fail(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    machine = record(tmp_path_factory.mktemp("tree"), files)
    facts = probe(machine, profiles=[])
    assert not [warning for warning in machine.warnings if "the prober failed" in warning]
    assert decode(to_json_bytes(facts)) == facts


def test_this_machine_is_told_as_python_sees_it() -> None:
    facts = probe(this_machine())
    assert facts.cpu.budget_cpus is not None
    assert facts.cpu.budget_cpus <= len(os.sched_getaffinity(0))
    assert facts.os.kernel == os.uname().release
    assert facts.os.userland_bits == (64 if sys.maxsize > 2**32 else 32)


def test_this_machine_answers_within_a_second() -> None:
    start = time.process_time()
    probe(this_machine())
    assert time.process_time() - start < PROBE_LIMIT_S


def test_the_probe_imports_neither_numpy_nor_a_runtime() -> None:
    heavy = "{'numpy', 'psutil', 'onnxruntime', 'asyncio'}"
    rooms = "agent.cli.probe, agent.hardware.probe, agent.hardware.report"
    code = f"import sys, {rooms}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
