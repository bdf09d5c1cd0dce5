from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.inference.bundle_folder import lay_out
from agent.selection.cache import MAX_CHOICES, CachedChoice, ChoiceCache
from agent.selection.fingerprint import device_fingerprint, fingerprint
from agent.selection.request import SelectionRequest
from edge_contracts.archive import open_bundle
from edge_contracts.capabilities import (
    Accelerator,
    AcceleratorKind,
    AcceleratorStatus,
    Capabilities,
    CpuFacts,
    MemoryFacts,
    OsFacts,
    RuntimeFact,
)
from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence
from tests.simulators.bundle_factory import stub_bundle

DEVICE = Capabilities(
    os=OsFacts(kernel_arch="aarch64", firmware="L4T R35"), cpu=CpuFacts(features={"neon": True}),
    memory=MemoryFacts(total_mb=4000, available_mb=3000), power_mode="15W",
    runtimes=[RuntimeFact(name="stub", version="1.0", status="usable")],
)  # fmt: skip


@pytest.fixture
def request_(tmp_path: Path) -> SelectionRequest:
    folder = lay_out(open_bundle(stub_bundle(tmp_path / "b.mindie")), tmp_path / "bundle")
    return SelectionRequest(folder=folder, device=DEVICE, budget_cpus=4.0)


GPU = Accelerator(kind=AcceleratorKind.GPU, name="Orin", status=AcceleratorStatus.USABLE, driver="nvgpu")
OTHER_DEVICES = {
    "another CPU": msgspec.structs.replace(DEVICE, cpu=CpuFacts(features={"neon": True, "dotprod": True})),
    "another power mode": msgspec.structs.replace(DEVICE, power_mode="30W"),
    "another firmware": msgspec.structs.replace(DEVICE, os=OsFacts(kernel_arch="aarch64", firmware="L4T R36")),
    "a GPU": msgspec.structs.replace(DEVICE, accelerators=[GPU]),
}


@pytest.mark.parametrize("what", OTHER_DEVICES)
def test_another_device_has_another_fingerprint(request_: SelectionRequest, what: str) -> None:
    other = OTHER_DEVICES[what]
    assert device_fingerprint(other) != device_fingerprint(DEVICE)
    assert fingerprint(dataclasses.replace(request_, device=other)) != fingerprint(request_)


@pytest.mark.parametrize(
    "change",
    [{"budget_cpus": 2.0}, {"affinity": frozenset({0})}, {"objective": "memory"}, {"max_drop": 0.02},
     {"device": msgspec.structs.replace(DEVICE, runtimes=[RuntimeFact(name="stub", version="1.1", status="usable")])}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_other_circumstances_have_another_fingerprint(request_: SelectionRequest, change: dict[str, Any]) -> None:
    assert fingerprint(dataclasses.replace(request_, **change)) != fingerprint(request_)


def test_what_changes_by_the_minute_does_not_change_it(request_: SelectionRequest) -> None:
    now = msgspec.structs.replace(DEVICE, memory=MemoryFacts(total_mb=4000, available_mb=700))
    assert fingerprint(dataclasses.replace(request_, device=now)) == fingerprint(request_)
    assert fingerprint(dataclasses.replace(request_, race_budget_s=3.0)) == fingerprint(request_)


def test_another_driver_is_another_device() -> None:
    newer = msgspec.structs.replace(GPU, driver="nvgpu 2")
    one, two = (msgspec.structs.replace(DEVICE, accelerators=[gpu]) for gpu in (GPU, newer))
    assert device_fingerprint(one) != device_fingerprint(two)


def test_a_version_that_differs_in_its_name_only_has_the_same_fingerprint(tmp_path: Path) -> None:
    marks = set()
    for version in ("1.0.0", "1.0.1"):
        archive = open_bundle(stub_bundle(tmp_path / f"{version}.mindie", version=version))
        folder = lay_out(archive, tmp_path / version)
        marks.add(fingerprint(SelectionRequest(folder=folder, device=DEVICE, budget_cpus=1.0)))
    assert len(marks) == 1


def choice(mark: str, *, complete: bool = True, budget_s: float = 10.0) -> CachedChoice:
    chosen = CandidateEvidence(name="n", variant="v", runtime="r", precision="fp32", status="chosen")
    evidence = ChoiceEvidence(chosen=chosen, why="because", fingerprint=mark)
    return CachedChoice(evidence=evidence, complete=complete, race_budget_s=budget_s)


def test_a_kept_choice_is_found_and_marked(tmp_path: Path) -> None:
    cache = ChoiceCache(tmp_path / "choices")
    cache.keep(choice("m"))
    found = cache.find("m", 10.0)
    assert found is not None
    assert found.from_cache
    assert cache.find("other", 10.0) is None
    cache.forget("m")
    assert cache.find("m", 10.0) is None


def test_an_undecided_race_is_run_again_only_when_there_is_more_time(tmp_path: Path) -> None:
    cache = ChoiceCache(tmp_path)
    cache.keep(choice("m", complete=False, budget_s=10.0))
    assert cache.find("m", 10.0) is not None
    assert cache.find("m", 60.0) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"evidence": 1}'])
def test_a_broken_file_is_as_good_as_absent(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.json").write_bytes(content)
    assert ChoiceCache(tmp_path).find("m", 10.0) is None


def test_a_file_under_anothers_name_is_not_believed(tmp_path: Path) -> None:
    cache = ChoiceCache(tmp_path)
    cache.keep(choice("m"))
    (tmp_path / "m.json").rename(tmp_path / "n.json")
    assert cache.find("n", 10.0) is None


def test_the_oldest_choices_go(tmp_path: Path) -> None:
    cache = ChoiceCache(tmp_path)
    for number in range(MAX_CHOICES + 5):
        cache.keep(choice(f"m{number}"))
    assert len(list(tmp_path.glob("*.json"))) == MAX_CHOICES


def test_a_folder_that_cannot_be_written_costs_only_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ChoiceCache(tmp_path / "file").keep(choice("m"))
