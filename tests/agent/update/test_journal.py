from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.checked_file import CheckedFile, read_checked, seal
from agent.disk import RealDisk
from agent.errors import UpdateError
from agent.update.journal import Journal, read_history, read_state
from agent.update.records import Deployment, DeviceState, HistoryEntry, Installed, ModelState, Wish
from edge_contracts.deployment import DeploymentState
from tests.simulators.quick_folder import quick_folder

texts = st.text(max_size=20)
states = st.sampled_from([state for state in DeploymentState if state is not DeploymentState.UNKNOWN])
wishes = st.builds(Wish, deployment=texts, version=st.none() | texts, digest=st.none() | texts, origin=texts)
deployments = st.builds(
    Deployment, wish=wishes, state=states, queued_ms=st.integers(0, 2**40), since_ms=st.integers(0, 2**40),
    reason=st.none() | texts, error_code=st.none() | texts, restores=st.booleans(), power_returns=st.integers(0, 9),
)  # fmt: skip
installed = st.builds(
    Installed, deployment=texts, version=texts, digest=texts, variant=texts, runtime=texts, precision=texts,
    options=st.dictionaries(texts, st.integers(-9, 9) | st.booleans() | texts, max_size=3),
)  # fmt: skip
models = st.builds(
    ModelState, deployment=st.none() | deployments, active=st.none() | installed, last_good=st.none() | installed,
    wished=st.none() | texts, fault=st.none() | texts, regressed=st.none() | texts,
)  # fmt: skip
device_states = st.builds(
    DeviceState, version=st.integers(0, 2**40), desired_version=st.none() | st.integers(0, 2**40),
    models=st.dictionaries(texts, models, max_size=3), last_changed=st.none() | texts, clean=st.booleans(),
)  # fmt: skip


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, RealDisk())


@given(state=device_states)
@settings(max_examples=50, deadline=None)
def test_what_is_saved_is_what_is_loaded(state: DeviceState) -> None:
    with quick_folder() as folder:
        Journal(folder, RealDisk()).save(state)
        assert read_state(folder) == state


@given(first=device_states, second=device_states, damage=st.binary(max_size=300), keep=st.integers(0, 60))
@settings(max_examples=80, deadline=None)
def test_a_damaged_journal_gives_the_state_before_it_and_never_garbage(
    first: DeviceState, second: DeviceState, damage: bytes, keep: int
) -> None:
    with quick_folder() as folder:
        journal = Journal(folder, RealDisk())
        journal.save(first)
        journal.save(second)
        path = folder / "state" / "journal"
        content = path.read_bytes()
        path.write_bytes(content[:keep] + damage)
        assert journal.load() in (first, second)
        if path.read_bytes() != content:
            assert journal.load() == first


@given(content=st.binary(max_size=200), position=st.integers(0, 300), flip=st.integers(1, 255))
def test_one_changed_byte_is_noticed(content: bytes, position: int, flip: int) -> None:
    sealed = bytearray(seal(content))
    sealed[position % len(sealed)] ^= flip
    with tempfile.NamedTemporaryFile() as file:
        file.write(sealed)
        file.flush()
        assert read_checked(Path(file.name)) is None


def test_a_damaged_file_is_not_kept_as_the_last_good_copy(tmp_path: Path) -> None:
    file = CheckedFile(tmp_path / "f", RealDisk())
    file.write(b"one")
    file.write(b"two")
    (tmp_path / "f").write_bytes(b"damaged")
    file.write(b"three")
    (tmp_path / "f").write_bytes(b"damaged again")
    assert file.is_damaged
    assert file.read() == b"one"


def test_a_journal_of_a_newer_agent_is_refused_and_not_overwritten(tmp_path: Path, journal: Journal) -> None:
    newer = msgspec.json.encode({"format": 99, "models": {"a": {"surprise": []}}})
    CheckedFile(tmp_path / "state" / "journal", RealDisk()).write(newer)
    with pytest.raises(UpdateError, match="newer mindie"):
        journal.load()


def entry(number: int, state: DeploymentState = DeploymentState.COMMITTED) -> HistoryEntry:
    return HistoryEntry(
        at_ms=number, model="digits", deployment=f"d{number}", version="1.0.0", digest=None, state=state
    )


def test_history_keeps_the_order_and_folds_repeats(tmp_path: Path, journal: Journal) -> None:
    for number in (1, 2, 2, 3):
        journal.append_history(entry(number))
    assert [one.deployment for one in read_history(tmp_path)] == ["d1", "d2", "d3"]


def test_a_torn_history_line_costs_that_line_only(tmp_path: Path, journal: Journal) -> None:
    journal.append_history(entry(1))
    with (tmp_path / "state" / "history").open("ab") as file:
        file.write(b'0123456789abcdef {"at_ms": 5, "mod')
    journal.append_history(entry(2))
    assert [one.deployment for one in journal.history()] == ["d1", "d2"]


def test_history_does_not_grow_for_ever(tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.update.journal.MAX_HISTORY_BYTES", 2000)
    for number in range(100):
        journal.append_history(entry(number))
    kept = journal.history()
    assert kept[-1].deployment == "d99"
    assert (tmp_path / "state" / "history").stat().st_size < 2500


def test_an_empty_device_has_no_history(journal: Journal) -> None:
    assert journal.history() == []
    assert journal.load() == DeviceState()
