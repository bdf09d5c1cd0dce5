from __future__ import annotations

from pathlib import Path

import pytest

from agent.selection.quarantine import Quarantine, QuarantineKey

KEY = QuarantineKey(runtime="onnxruntime 1.32.0", device="d1", variant="sha256:aa", mode="CPU/")


class Boots:
    def __init__(self) -> None:
        self.number = 1

    def __call__(self) -> str:
        return f"boot-{self.number}"


@pytest.fixture
def boots() -> Boots:
    return Boots()


def reloaded(tmp_path: Path, boots: Boots) -> Quarantine:
    quarantine = Quarantine(tmp_path / "quarantine.json", boots)
    quarantine.load()
    return quarantine


def test_what_crashed_is_known_to_the_next_process(tmp_path: Path, boots: Boots) -> None:
    reloaded(tmp_path, boots).add(KEY, "crash", "died of SIGILL")
    entry = reloaded(tmp_path, boots).entry(KEY, 0.01)
    assert entry is not None
    assert (entry.kind, entry.reason) == ("crash", "died of SIGILL")


@pytest.mark.parametrize("field", ["runtime", "device", "variant", "mode"])
def test_another_runtime_device_variant_or_mode_is_tried_afresh(tmp_path: Path, boots: Boots, field: str) -> None:
    quarantine = reloaded(tmp_path, boots)
    quarantine.add(KEY, "crash", "died of SIGILL")
    other = {"runtime": KEY.runtime, "device": KEY.device, "variant": KEY.variant, "mode": KEY.mode, field: "other"}
    assert quarantine.entry(QuarantineKey(**other), 0.01) is None


def test_wrong_answers_count_only_while_as_much_accuracy_is_asked_for(tmp_path: Path, boots: Boots) -> None:
    quarantine = reloaded(tmp_path, boots)
    quarantine.add(KEY, "wrong", "agreement 0.9", max_drop=0.01)
    assert quarantine.entry(KEY, 0.01) is not None
    assert quarantine.entry(KEY, 0.001) is not None
    assert quarantine.entry(KEY, 0.2) is None


def test_one_power_return_during_a_trial_is_no_evidence_two_are(tmp_path: Path, boots: Boots) -> None:
    for expected in (None, "power"):
        quarantine = reloaded(tmp_path, boots)
        assert quarantine.entry(KEY, 0.01) is None
        quarantine.begin(KEY)
        boots.number += 1
        entry = reloaded(tmp_path, boots).entry(KEY, 0.01)
        assert (entry.kind if entry else None) == expected


def test_the_death_of_our_own_process_during_a_trial_is_no_evidence(tmp_path: Path, boots: Boots) -> None:
    for _ in range(5):
        reloaded(tmp_path, boots).begin(KEY)
    assert reloaded(tmp_path, boots).entry(KEY, 0.01) is None


def test_a_trial_that_ended_well_between_clears_the_count(tmp_path: Path, boots: Boots) -> None:
    reloaded(tmp_path, boots).begin(KEY)
    boots.number += 1
    quarantine = reloaded(tmp_path, boots)
    quarantine.begin(KEY)
    quarantine.end(KEY)
    reloaded(tmp_path, boots).begin(KEY)
    boots.number += 1
    assert reloaded(tmp_path, boots).entry(KEY, 0.01) is None


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b'{"entries": 3}', b"[]"])
def test_a_broken_file_is_taken_as_empty(tmp_path: Path, boots: Boots, content: bytes) -> None:
    (tmp_path / "quarantine.json").write_bytes(content)
    quarantine = reloaded(tmp_path, boots)
    assert quarantine.entry(KEY, 0.01) is None
    quarantine.add(KEY, "hang", "hung")
    assert reloaded(tmp_path, boots).entry(KEY, 0.01) is not None
