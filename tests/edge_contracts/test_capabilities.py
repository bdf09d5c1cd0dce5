from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_contracts.capabilities import (
    Accelerator,
    AcceleratorKind,
    AcceleratorStatus,
    BoardFacts,
    BudgetSource,
    Capabilities,
    CpuCluster,
    CpuFacts,
    MemoryFacts,
    RuntimeFact,
    decode,
    to_json_bytes,
    topology_key,
)
from edge_contracts.errors import MalformedMessage

FACTS = Capabilities(
    board=BoardFacts(model="Radxa ROCK 5B", soc="RK3588", profile="rock-5b"),
    cpu=CpuFacts(
        clusters=[CpuCluster(core="Cortex-A76", cores=2, logical_cpus="4-5")], features={"neon": True, "sve": False}
    ),
    accelerators=[Accelerator(kind=AcceleratorKind.NPU, vendor="Rockchip", status=AcceleratorStatus.NO_PERMISSION)],
    runtimes=[RuntimeFact(name="onnxruntime", version="1.23.2", targets=["cpu"], status="usable")],
)


def test_facts_survive_the_wire() -> None:
    assert decode(to_json_bytes(FACTS)) == FACTS
    assert decode(json.loads(to_json_bytes(FACTS))) == FACTS


def test_what_is_unknown_is_written_as_null() -> None:
    document = json.loads(to_json_bytes(Capabilities()))
    assert document["power_mode"] is None
    assert document["cpu"]["physical_cores"] is None
    assert document["thermal"]["throttled"] is None


def test_a_part_that_is_missing_is_unknown() -> None:
    assert decode(b"{}") == Capabilities()


def test_words_of_a_newer_device_are_unknown_and_its_fields_are_passed_over() -> None:
    found = decode(
        b'{"accelerators":[{"kind":"quantum","status":"warming-up","qubits":4}],"cpu":{"budget_source":"moon"},"new":1}'
    )
    assert found.accelerators[0].kind is AcceleratorKind.UNKNOWN
    assert found.accelerators[0].status is AcceleratorStatus.UNKNOWN
    assert found.cpu.budget_source is BudgetSource.UNKNOWN


def test_enum_words_are_written_as_on_the_wire() -> None:
    assert f"{AcceleratorStatus.NO_DRIVER}" == "no-driver"
    assert f"{AcceleratorKind.GPU} {BudgetSource.CGROUP}" == "gpu cgroup"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"\xff\xfe", b'{"cpu":[]}', b'{"memory":{"total_mb":"much"}}', b"<html>"]
)
def test_what_is_no_facts_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage, match="capabilities"):
        decode(data)


@given(st.permutations(["neon", "dotprod", "fp16", "i8mm"]))
def test_the_topology_key_does_not_depend_on_order(names: list[str]) -> None:
    facts = Capabilities(cpu=CpuFacts(features=dict.fromkeys(names, True)))
    assert topology_key(facts) == topology_key(Capabilities(cpu=CpuFacts(features=dict.fromkeys(sorted(names), True))))


def test_the_topology_key_changes_with_the_silicon_only() -> None:
    key = topology_key(FACTS)
    assert len(key) == 16
    other_budget = Capabilities(
        board=FACTS.board, cpu=CpuFacts(clusters=FACTS.cpu.clusters, features=FACTS.cpu.features, budget_cpus=0.5)
    )
    assert topology_key(other_budget) == key
    assert topology_key(Capabilities(board=FACTS.board, cpu=FACTS.cpu, memory=MemoryFacts(total_mb=1))) == key
    assert topology_key(Capabilities(board=BoardFacts(soc="RK3568"), cpu=FACTS.cpu)) != key
    assert topology_key(Capabilities(board=FACTS.board, cpu=CpuFacts(clusters=FACTS.cpu.clusters))) != key
