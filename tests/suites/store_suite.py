"""What every driver of the store seam does. A driver's test class inherits StoreSuite and gives ``store``."""

from __future__ import annotations

import threading

import msgspec
import pytest

from edge_contracts.capabilities import Capabilities, CpuFacts
from edge_contracts.deployment import DeploymentState
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import BundleRef, Policy, Reported
from fleet.domain.catalogue import RegisteredBundle
from fleet.domain.device import Device, DeviceState, Presence, Vitals
from fleet.domain.history import LatencyMinute
from fleet.domain.identity import Credential, StoredToken
from fleet.domain.rollout import Rollout, RolloutState, Target, TargetKind, Wave
from fleet.domain.targeting import Selector
from fleet.domain.wave import ErrorAction, WavePolicy
from fleet.domain.wish import Wish
from fleet.store.stored_event import StoredEvent
from fleet.store.unit_of_work import Store

DEVICE = Device(
    id="cam-1", site="lyon", enrolled_ms=5, labels={"floor": "2"}, fingerprint="f", presence=Presence(session=4),
    capabilities=Capabilities(cpu=CpuFacts(budget_cpus=1.5)), agent_version="0.1.0", serving_port=8000,
    reported=Reported(version=3, session=4, models={}), vitals=Vitals(to_ms=9, temp_c=51.5, throttled=False),
    desired_version=7,
)  # fmt: skip
ROLLOUT = Rollout(
    id="r1", name="Über 日本", model="digits", version="1.0.0", digest="sha256:1", selector=Selector(site="lyon"),
    waves=(Wave(policy=WavePolicy(size="1", error_action=ErrorAction.ROLLBACK_ALL)), Wave(policy=WavePolicy())),
    created_ms=2, policy=Policy(soak_s=1.5, allow_unsigned=True), deadlines_s={"trial": 5.0},
)  # fmt: skip
TARGET = Target(
    rollout="r1", device="cam-1", deployment="r1-1", wave=0, first_wave=0, state=DeploymentState.TRIAL, reason="x",
    previous=BundleRef(version="0.9.0", digest="sha256:0"), asked_ms=3,
)  # fmt: skip
HUGE_NUMBER = StoredEvent(device="cam-1", id="e1", at_ms=2**70, kind="k", text="t")
SKETCH = LatencySketch()
SKETCH.add(1500.0, 3)
RECORDS = {
    "devices": DEVICE,
    "credentials": Credential(device="cam-1", site="lyon", verifiers='{"bcrypt": "x"}'),
    "tokens": StoredToken(id="t1", secret_sha256="ab", site="lyon", uses_left=2, created_ms=1, labels={"a": "b"}),
    "bundles": RegisteredBundle(
        name="digits", version="1.0.0", digest="sha256:1", signed=False, variants=["a", "b"], size_bytes=2**40,
        registered_ms=4,
    ),
    "rollouts": ROLLOUT,
    "targets": TARGET,
    "wishes": Wish(device="cam-1", model="digits", deployment="r1-1", version="1", digest="d", policy=Policy(soak_s=2)),
    "latencies": LatencyMinute(
        device="cam-1", model="digits", digest="d", stage="total", minute_ms=60_000, version="1",
        sketch=SKETCH.to_data(),
    ),
    "events": StoredEvent(
        device="cam-1", id="e1", at_ms=1, kind="k", text="t", facts={"n": 1, "f": 0.5, "s": None}, received_ms=2,
    ),
}  # fmt: skip


class StoreSuite:
    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    @pytest.mark.parametrize("kind", sorted(RECORDS))
    def test_what_was_saved_is_found_equal(self, store: Store, kind: str) -> None:
        record = RECORDS[kind]
        save(store, kind, record)
        with store.read() as work:
            assert getattr(work, kind).find() == [record]

    @pytest.mark.parametrize("kind", sorted(RECORDS))
    def test_saving_again_replaces_by_key(self, store: Store, kind: str) -> None:
        save(store, kind, RECORDS[kind])
        save(store, kind, RECORDS[kind])
        with store.read() as work:
            assert len(getattr(work, kind).find()) == 1

    def test_what_is_not_committed_never_happened(self, store: Store) -> None:
        with store.write() as work:
            work.devices.save([DEVICE])
        with store.read() as work:
            assert work.devices.get("cam-1") is None

    def test_an_error_in_a_block_rolls_back_and_passes_on(self, store: Store) -> None:
        with pytest.raises(ZeroDivisionError):
            fail_half_way(store)
        with store.write() as work:
            assert work.devices.find() == []

    def test_a_write_block_sees_what_it_wrote(self, store: Store) -> None:
        with store.write() as work:
            work.targets.save([TARGET])
            assert work.targets.get("r1", "cam-1", TargetKind.INSTALL, 1, lock=True) == TARGET
            work.commit()

    def test_a_read_block_has_nothing_to_commit(self, store: Store) -> None:
        with store.read() as work, pytest.raises(RuntimeError):
            work.commit()

    def test_plain_fields_are_searched_by_value_list_and_nothing(self, store: Store) -> None:
        rows = [
            msgspec.structs.replace(TARGET, device=name, state=state)
            for name, state in (("a", None), ("b", DeploymentState.TRIAL), ("c", DeploymentState.FAILED))
        ]
        save(store, "targets", *rows)
        with store.read() as work:
            found = lambda **where: [t.device for t in work.targets.find(where)]  # noqa: E731
            assert found(state=None) == ["a"]
            assert found(state=DeploymentState.TRIAL) == ["b"]
            assert found(state=[DeploymentState.TRIAL, DeploymentState.FAILED]) == ["b", "c"]
            assert found(state=(None, "failed")) == ["a", "c"]
            assert found(device={"a", "c"}, kind=TargetKind.INSTALL) == ["a", "c"]
            assert found(device=[]) == []
            assert found(rollout="r1") == ["a", "b", "c"]
            assert found(rollout="other") == []

    def test_a_list_longer_than_a_statement_takes_is_searched_whole(self, store: Store) -> None:
        names = [f"d{number:05}" for number in range(12_000)]
        rows = [msgspec.structs.replace(DEVICE, id=name, capabilities=None, reported=None) for name in names[::1000]]
        save(store, "devices", *rows)
        with store.read() as work:
            assert len(work.devices.find({"id": names})) == 12

    def test_newest_first_lower_bounds_and_limits(self, store: Store) -> None:
        events = [StoredEvent(device="d", id=f"e{n}", at_ms=n, kind="k", text="t") for n in range(10)]
        save(store, "events", *events)
        with store.read() as work:
            newest = work.events.find({"device": "d"}, newest_by="at_ms", limit=3)
            assert [event.at_ms for event in newest] == [9, 8, 7]
            assert len(work.events.find(at_least={"at_ms": 6})) == 4

    def test_counting_is_by_value_of_what_would_be_found(self, store: Store) -> None:
        states = {"a": None, "b": DeploymentState.TRIAL, "c": DeploymentState.TRIAL, "d": DeploymentState.FAILED}
        save(store, "targets", *(msgspec.structs.replace(TARGET, device=d, state=s) for d, s in states.items()))
        with store.read() as work:
            assert work.targets.count("state") == {None: 1, "trial": 2, "failed": 1}
            assert work.targets.count("rollout", {"state": [None, DeploymentState.TRIAL]}) == {"r1": 3}
            assert work.targets.count("state", {"device": []}) == {}

    def test_only_the_named_fields_are_written_and_only_of_what_exists(self, store: Store) -> None:
        save(store, "devices", DEVICE)
        changed = Device(id="cam-1", site="x", enrolled_ms=0, presence=Presence(session=5), vitals=Vitals(to_ms=10))
        with store.write() as work:
            work.devices.save([changed, msgspec.structs.replace(changed, id="new")], only=("presence", "vitals"))
            work.commit()
        with store.read() as work:
            expected = msgspec.structs.replace(DEVICE, presence=changed.presence, vitals=changed.vitals)
            assert work.devices.find() == [expected]

    def test_fields_left_out_have_their_defaults(self, store: Store) -> None:
        save(store, "devices", DEVICE)
        with store.read() as work:
            (light,) = work.devices.find(without=("capabilities", "reported"))
        assert light == msgspec.structs.replace(DEVICE, capabilities=None, reported=None)

    def test_deleting_says_how_many_and_refuses_to_delete_everything(self, store: Store) -> None:
        save(store, "devices", DEVICE, msgspec.structs.replace(DEVICE, id="cam-2", state=DeviceState.QUARANTINED))
        with store.write() as work:
            assert work.devices.delete({"state": DeviceState.QUARANTINED}) == 1
            assert work.devices.delete({"id": "nobody"}) == 0
            with pytest.raises(ValueError):
                work.devices.delete({})
            assert work.devices.delete({}, below={"enrolled_ms": 5}) == 0
            work.commit()
        with store.read() as work:
            assert [device.id for device in work.devices.find()] == ["cam-1"]

    def test_old_rows_are_deleted_by_an_upper_bound(self, store: Store) -> None:
        save(store, "events", *(StoredEvent(device="d", id=f"e{n}", at_ms=n, kind="k", text="t") for n in range(5)))
        with store.write() as work:
            assert work.events.delete({"device": "d"}, below={"at_ms": 3}) == 3
            work.commit()
        with store.read() as work:
            assert [event.at_ms for event in work.events.find()] == [3, 4]

    def test_writers_take_turns_and_lose_nothing(self, store: Store) -> None:
        save(store, "rollouts", ROLLOUT)

        def count_up() -> None:
            for _ in range(20):
                with store.write() as work:
                    rollout = work.rollouts.get("r1", lock=True)
                    assert rollout is not None
                    work.rollouts.save([msgspec.structs.replace(rollout, revision=rollout.revision + 1)])
                    work.commit()

        threads = [threading.Thread(target=count_up) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.read() as work:
            rollout = work.rollouts.get("r1")
            assert rollout is not None
            assert rollout.revision == 80

    def test_a_reader_sees_one_state_while_a_writer_works(self, store: Store) -> None:
        save(store, "rollouts", ROLLOUT)
        with store.read() as reading:
            assert reading.rollouts.get("r1") == ROLLOUT
            save(store, "rollouts", msgspec.structs.replace(ROLLOUT, state=RolloutState.RUNNING))
            assert reading.rollouts.get("r1") == ROLLOUT
        with store.read() as reading:
            assert reading.rollouts.find({"state": [RolloutState.RUNNING]}) != []


def save(store: Store, kind: str, *records: object) -> None:
    with store.write() as work:
        getattr(work, kind).save(list(records))
        work.commit()


def fail_half_way(store: Store) -> None:
    with store.write() as work:
        work.devices.save([DEVICE])
        raise ZeroDivisionError
