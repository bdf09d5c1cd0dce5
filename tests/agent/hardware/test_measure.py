from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent.hardware.measure import array_mb, measured, parse_query
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import Accelerator, AcceleratorKind, Capabilities, CpuFacts, MemoryFacts

FACTS = Capabilities(cpu=CpuFacts(budget_cpus=1.5), memory=MemoryFacts(available_mb=400))


def machine(root: Path, printed: str | None = None) -> Machine:
    return Machine(root=root, live=True, run=lambda argv, timeout_s: printed)


def test_a_real_measurement_gives_figures_of_a_real_machine(tmp_path: Path) -> None:
    found = measured(FACTS, machine(tmp_path))
    assert found.memory.bandwidth_gb_s is not None
    assert found.cpu.gflops_fp32 is not None
    assert 0.05 < found.memory.bandwidth_gb_s < 5_000
    assert 0.05 < found.cpu.gflops_fp32 < 50_000


def test_the_child_gets_the_threads_of_the_budget_and_an_eighth_of_the_memory(tmp_path: Path) -> None:
    asked: list[tuple[Sequence[str], Mapping[str, str]]] = []

    def run_child(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> tuple[bytes, str]:
        asked.append((argv, environment))
        return b'{"bandwidth_gb_s": 12.34, "gflops_fp32": 56.78}', ""

    found = measured(FACTS, machine(tmp_path), run_child)
    assert asked[0][0][-2:] == ["50", "1"]
    assert asked[0][1]["OPENBLAS_NUM_THREADS"] == "1"
    assert (found.memory.bandwidth_gb_s, found.cpu.gflops_fp32) == (12.3, 56.8)


@pytest.mark.parametrize(
    ("output", "problem", "said"), [(b"", "No module named 'numpy'", "numpy"), (b"{}", "", "no result")]
)
def test_a_measurement_that_fails_is_a_warning(tmp_path: Path, output: bytes, problem: str, said: str) -> None:
    live = machine(tmp_path)
    assert measured(FACTS, live, lambda argv, environment, timeout_s: (output, problem)) == FACTS
    assert len(live.warnings) == 1
    assert said in live.warnings[0]


@pytest.mark.parametrize(("available", "size"), [(None, 16), (60, 16), (400, 50), (100_000, 256)])
def test_a_small_board_survives_its_own_measurement(available: int | None, size: int) -> None:
    assert array_mb(available) == size


def test_the_memory_of_an_nvidia_gpu_is_the_drivers_to_tell(tmp_path: Path) -> None:
    gpu = Accelerator(kind=AcceleratorKind.GPU, vendor="NVIDIA", name="A2", bus_id="pci 10de:25b6 at 0000:01:00.0")
    printed = "00000000:01:00.0, 15356, 3, 8.6, 39\n"
    facts = measured(Capabilities(accelerators=[gpu]), machine(tmp_path, printed), lambda *_: (b"", "not now"))
    found = facts.accelerators[0]
    assert (found.memory_mb, found.memory_used_mb, found.temp_c) == (15356, 3, 39.0)
    assert found.compute == {"cuda_compute_capability": 8.6}


def test_a_driver_that_does_not_answer_leaves_the_gpu_as_it_was() -> None:
    assert parse_query("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n") == {}
