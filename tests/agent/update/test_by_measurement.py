"""The update machine's Selection over the real one: real trial processes over stub bundles."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from agent.inference.bundle_folder import BundleFolder, lay_out
from agent.update.by_measurement import MeasuredSelection
from agent.update.effects import Placed, Proving
from edge_contracts.archive import open_bundle
from edge_contracts.capabilities import Capabilities, RuntimeFact
from edge_contracts.evidence import ChoiceEvidence
from edge_contracts.latency import LatencySketch
from tests.simulators.bundle_factory import mixed_bundle

DEVICE = Capabilities(runtimes=[RuntimeFact(name="stub", version="1.0", targets=["cpu"], status="usable")])
PROVING = Proving(soak_s=0, max_p90_ratio=1.1, slo_p95_ms=None, race_budget_s=4, objective="latency", max_drop=0.01)
FAST, SLOW = {"delay_us": 1000}, {"delay_us": 12000}
NO_ROOM_MB = 10**7


@pytest.fixture(autouse=True)
def _stub_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDEDGE_STUB_BACKEND", "1")


def laid_out(root: Path, behaviours: dict[str, dict[str, Any]], version: str = "1.0.0") -> BundleFolder:
    archive = mixed_bundle(root / f"{version}.mindie", behaviours, version=version)
    return lay_out(open_bundle(archive), root / version)


def selection(root: Path, **more: Any) -> MeasuredSelection:
    defaults: dict[str, Any] = {"affinity": None, "monotonic": time.monotonic, "reserve_mb": 0, "pairs": 15}
    return MeasuredSelection(root / "data", lambda: DEVICE, **{**defaults, **more})


def placed(folder: BundleFolder, variant: str, evidence: ChoiceEvidence | None = None) -> Placed:
    bundle = folder.bundle
    options = evidence.chosen.options if evidence is not None else {"threads": 1}
    return Placed("affine", bundle.spec.version, bundle.digest, folder, variant, options, False, evidence)


def choose(measured: MeasuredSelection, folder: BundleFolder) -> ChoiceEvidence:
    return measured.choose(folder, PROVING, lambda _: None, lambda: False)


def test_what_crashed_while_it_served_is_not_chosen_when_the_same_bundle_comes_again(tmp_path: Path) -> None:
    folder = laid_out(tmp_path, {"slow": SLOW, "fast": FAST})
    measured = selection(tmp_path)
    first = choose(measured, folder)
    assert first.chosen.variant == "fast"
    measured.distrust(placed(folder, "fast", first), "the engine crashed 3 times within an hour")
    second = choose(measured, folder)
    assert second.chosen.variant == "slow"
    assert not second.from_cache


def test_nothing_is_noted_of_what_was_never_chosen_by_measurement(tmp_path: Path) -> None:
    folder = laid_out(tmp_path, {"v": FAST})
    selection(tmp_path).distrust(placed(folder, "v"), "crashed")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("live_us", "ok"), [(60_000.0, True), (900.0, False)])
def test_without_room_for_two_the_new_one_is_compared_with_what_the_live_engine_measured(
    tmp_path: Path, live_us: float, ok: bool
) -> None:
    asked: list[tuple[str, str]] = []

    def recent(name: str, digest: str) -> LatencySketch:
        asked.append((name, digest))
        sketch = LatencySketch()
        sketch.add(live_us, 500)
        return sketch

    old, new = laid_out(tmp_path, {"v": SLOW}), laid_out(tmp_path, {"v": SLOW}, "2.0.0")
    measured = selection(tmp_path, reserve_mb=NO_ROOM_MB, recent=recent)
    proof = measured.prove_no_worse(placed(new, "v"), placed(old, "v"), PROVING, lambda _: None, lambda: False)
    assert proof.ok is ok, proof.text
    assert "live engine" in proof.text
    assert asked == [("affine", old.bundle.digest)]
