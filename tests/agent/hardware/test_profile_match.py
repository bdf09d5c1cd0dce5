from __future__ import annotations

import pytest

from agent.hardware.profile_match import completed, match
from edge_contracts.capabilities import (
    Accelerator,
    AcceleratorKind,
    BoardFacts,
    Capabilities,
    CpuCluster,
    CpuFacts,
    OsFacts,
)
from edge_contracts.profiles import load_profiles

PROFILES = load_profiles()
NUC = Capabilities(board=BoardFacts(model="Intel NUC13ANHi5", vendor="Intel"))


def name_of(facts: Capabilities) -> str | None:
    profile = match(PROFILES, facts)
    return profile.name if profile else None


@pytest.mark.parametrize(
    ("cpu", "profile"),
    [
        ("Intel(R) Core(TM) Ultra 7 155H", "intel-meteor-lake"),
        ("Intel(R) Core(TM) Ultra 7 258V", "intel-lunar-lake"),
        ("Intel(R) Core(TM) Ultra 7 265K", "intel-arrow-lake"),
        ("Intel(R) Core(TM) Ultra 5 225H", "intel-arrow-lake"),
        ("13th Gen Intel(R) Core(TM) i5-1340P", "intel-alder-raptor-lake"),
        ("Intel(R) Core(TM) i9-14900K", "intel-alder-raptor-lake"),
        ("Intel(R) N100", "intel-alder-lake-n"),
        ("Intel(R) Core(TM) i3-N305", "intel-alder-lake-n"),
        ("Intel(R) Core(TM) i5-8259U CPU @ 2.30GHz", "intel-core-6-to-11"),
        ("11th Gen Intel(R) Core(TM) i5-1135G7 @ 2.40GHz", "intel-core-6-to-11"),
        ("AMD Ryzen 7 5800H with Radeon Graphics", "generic-x86-64"),
    ],
)
def test_a_pc_by_its_cpu(cpu: str, profile: str) -> None:
    assert name_of(Capabilities(os=OsFacts(kernel_arch="x86_64"), cpu=CpuFacts(model=cpu))) == profile


def test_the_board_outranks_the_soc() -> None:
    facts = Capabilities(board=BoardFacts(compatible=["radxa,rock-5b", "rockchip,rk3588"]))
    assert name_of(facts) == "rock-5b"


def test_nothing_known_matches_nothing() -> None:
    assert match(PROFILES, Capabilities()) is None


def test_an_architecture_without_a_profile_matches_nothing() -> None:
    assert name_of(Capabilities(os=OsFacts(kernel_arch="riscv64"))) is None


def test_a_board_that_shows_nothing_is_completed_by_what_is_soldered_on() -> None:
    facts = completed(NUC, PROFILES, bus_seen=False)
    assert (facts.cpu.physical_cores, facts.cpu.logical_cpus) == (12, 16)
    assert [a.bus_id for a in facts.accelerators] == ["pci 8086:a7a0"]


def test_a_bus_that_is_shown_is_believed() -> None:
    assert completed(NUC, PROFILES, bus_seen=True).accelerators == []


def test_a_profile_never_contradicts_a_file() -> None:
    cpu = CpuFacts(
        model="13th Gen Intel(R) Core(TM) i5-1340P",
        physical_cores=8,
        logical_cpus=8,
        clusters=[CpuCluster(core="x", cores=8)],
    )
    gpu = Accelerator(kind=AcceleratorKind.GPU, vendor="Intel", name="seen")
    facts = completed(Capabilities(board=NUC.board, cpu=cpu, accelerators=[gpu]), PROFILES, bus_seen=False)
    assert facts.cpu == cpu
    assert facts.accelerators == [gpu]


def test_a_general_profile_adds_nothing_but_its_name() -> None:
    facts = Capabilities(os=OsFacts(kernel_arch="aarch64"))
    found = completed(facts, PROFILES, bus_seen=False)
    assert found.board == BoardFacts(profile="generic-aarch64")
    assert (found.cpu, found.os, found.accelerators) == (facts.cpu, facts.os, [])
