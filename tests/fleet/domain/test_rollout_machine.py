"""Random devices, losses, duplicates, late reports, operators and kills of the server against the wave maths."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edge_contracts import messages, topics
from edge_contracts.deployment import DeploymentState
from edge_contracts.messages import Reported
from fleet.domain.rollout import FINAL, RolloutEvent, RolloutState, Target, TargetKind
from fleet.domain.tallying import wave_tally
from fleet.domain.wave import Denominator, ErrorAction, SuccessAction, WavePolicy, WaveState
from fleet.errors import NotAllowedNow
from fleet.store.memory import MemoryStore
from tests.fleet.fleet_in_memory import FleetInMemory, digest_of
from tests.simulators.device import Plan

DEVICES = ("a", "b", "c", "d", "e")
VERSIONS = ("1.0.0", "2.0.0")
STRAGGLER_S = 100.0


class Killed(BaseException):
    """The server is killed here."""


class KillingStore(MemoryStore):
    """Kills the server just before or just after a commit, when told."""

    def __init__(self) -> None:
        super().__init__()
        self.commits_left: int | None = None
        self.after = False

    @contextlib.contextmanager
    def write(self) -> Iterator[Any]:
        with super().write() as work:
            commit = work.commit

            def doomed() -> None:
                if self.commits_left is not None:
                    self.commits_left -= 1
                    if self.commits_left < 0:
                        self.commits_left = None
                        if self.after:
                            commit()
                        raise Killed
                commit()

            work.commit = doomed  # type: ignore[method-assign]
            yield work


policies = st.builds(
    WavePolicy,
    size=st.sampled_from(["1", "2", "40%", "100%"]),
    success_threshold_pct=st.sampled_from([0.0, 50.0, 100.0]),
    error_threshold_pct=st.sampled_from([0.0, 34.0, 100.0]),
    min_executed=st.integers(0, 3),
    denominator=st.sampled_from(Denominator),
    soak_s=st.sampled_from([0.0, 50.0]),
    success_action=st.sampled_from(SuccessAction),
    error_action=st.sampled_from(ErrorAction),
    straggler_after_s=st.just(STRAGGLER_S),
)
names = st.sampled_from(DEVICES)


class RolloutMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store = KillingStore()
        self.fleet = FleetInMemory(self.store)
        self.online = set(DEVICES)
        self.ended: dict[tuple[str, str, TargetKind, int], tuple[Any, ...]] = {}
        self.sent: list[tuple[str, bytes]] = []
        for name in DEVICES:
            self.fleet.device(name)
        for version in VERSIONS:
            self.fleet.bundle("digits", version)
        for device in self.fleet.devices.values():
            device.plans = dict.fromkeys(VERSIONS, Plan.STOP_IN_TRIAL)

    # --- what happens ---------------------------------------------------------------------------------------------

    @rule(waves=st.lists(policies, min_size=1, max_size=3), flight=st.integers(1, 3), version=st.sampled_from(VERSIONS))
    def roll_out(self, waves: list[WavePolicy], flight: int, version: str) -> None:
        with self.surviving():
            self.fleet.rollout(version, waves=list(waves), max_in_flight=flight)

    @rule(name=names)
    def lose_the_connection(self, name: str) -> None:
        if name in self.online:
            self.online.discard(name)
            self.fleet.disconnect(name)
            self.settle()

    @rule(name=names)
    def come_back(self, name: str) -> None:
        if name not in self.online:
            self.online.add(name)
            self.fleet.connect(name)
            self.settle()

    @rule(name=names, state=st.sampled_from([DeploymentState.COMMITTED, DeploymentState.FAILED]))
    def finish(self, name: str, state: DeploymentState) -> None:
        entry = self.fleet.devices[name].models.get("digits")
        if entry is not None and entry.state is DeploymentState.TRIAL:
            self.fleet.devices[name].finish("digits", state, "by chance")
            self.remember(name)
            self.settle()

    @rule(name=names)
    def regress(self, name: str) -> None:
        entry = self.fleet.devices[name].models.get("digits")
        if entry is not None and entry.state is DeploymentState.COMMITTED:
            self.fleet.devices[name].regress("digits", "too hot")
            self.settle()

    @precondition(lambda self: self.sent)
    @rule(position=st.integers(0, 1000))
    def deliver_an_old_report_again(self, position: int) -> None:
        name, payload = self.sent[position % len(self.sent)]
        if name in self.online:
            topic = topics.up("default", name, "reported")
            self.fleet.devices[name].connection.publish(topic, payload)  # type: ignore[attr-defined]
            self.settle()

    @rule(verb=st.sampled_from([RolloutEvent.PAUSE, RolloutEvent.RESUME, RolloutEvent.ROLLBACK, RolloutEvent.ABORT]))
    def operator(self, verb: RolloutEvent) -> None:
        for rollout, _ in self.fleet.rollouts.all()[:1]:
            with contextlib.suppress(NotAllowedNow), self.surviving():
                self.fleet.rollouts.act(rollout.id, verb, "by the operator")
        self.settle()

    @rule(seconds=st.sampled_from([1.0, 60.0, 120.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        self.fleet.now_ms += int(1000 * seconds)
        self.settle()

    @rule(commits=st.integers(0, 4), after=st.booleans())
    def the_server_will_be_killed(self, commits: int, after: bool) -> None:
        self.store.commits_left, self.store.after = commits, after

    # --- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def ended_deployments_never_change(self) -> None:
        for target in self.all_targets():
            key = (target.rollout, target.device, target.kind, target.attempt)
            if target.terminal:
                facts = (target.state, target.reason, target.error_code, target.asked_ms, target.changed_ms)
                assert self.ended.setdefault(key, facts) == facts
            else:
                assert key not in self.ended

    @invariant()
    def a_device_has_one_deployment_at_a_time(self) -> None:
        flying = Counter(t.device for t in self.all_targets() if t.in_flight)
        assert all(count == 1 for count in flying.values()), flying

    @invariant()
    def no_more_devices_than_allowed_are_in_flight(self) -> None:
        for rollout, targets in self.fleet.rollouts.all():
            flying = [
                t
                for t in targets
                if t.in_flight and t.kind is TargetKind.INSTALL and not (t.straggler and t.contacted_ms is None)
            ]
            late = [t for t in flying if t.straggler]  # asked in time, heard of later: not held back any more
            assert len(flying) - len(late) <= rollout.max_in_flight

    @invariant()
    def a_wave_begins_only_after_those_before_it(self) -> None:
        for rollout, targets in self.fleet.rollouts.all():
            for position, wave in enumerate(rollout.all_waves):
                if wave.opened_ms is not None and rollout.state is RolloutState.RUNNING:
                    assert all(earlier.opened_ms is not None for earlier in rollout.all_waves[:position])
                if wave.state is WaveState.PENDING:
                    assert all(t.asked_ms is None for t in targets if t.wave == position and not t.straggler)

    @invariant()
    def a_wave_that_stands_as_succeeded_is_within_its_error_threshold(self) -> None:
        for rollout, targets in self.fleet.rollouts.all():
            if rollout.state is not RolloutState.RUNNING:
                continue
            for position, wave in enumerate(rollout.all_waves):
                counts = wave_tally(targets, position)
                if wave.state is WaveState.SUCCEEDED and not wave.forgiven and counts.failed and counts.settled:
                    base = counts.targeted if wave.policy.denominator is Denominator.TARGETED else counts.contacted
                    assert 100 * counts.failed <= wave.policy.error_threshold_pct * base

    @invariant()
    def committed_means_that_the_device_said_so(self) -> None:
        for target in self.all_targets():
            if target.state is DeploymentState.COMMITTED and target.kind is TargetKind.INSTALL:
                assert target.contacted_ms is not None

    @invariant()
    def what_is_asked_is_what_is_wished(self) -> None:
        with self.fleet.store.read() as work:
            wishes = {wish.device: wish for wish in work.wishes.find()}
        for target in self.all_targets():
            if target.in_flight and (target.kind is TargetKind.INSTALL or target.previous is not None):
                assert wishes[target.device].deployment == target.deployment
        for device, wish in wishes.items():
            assert wish.digest in {digest_of(version) for version in VERSIONS}, device

    @invariant()
    def every_device_that_is_there_has_heard_its_newest_wish(self) -> None:
        with self.fleet.store.read() as work:
            wanted = {device.id: device.desired_version for device in work.devices.find()}
        for name in self.online:
            heard = self.fleet.devices[name].heard
            assert wanted[name] == (heard[-1].version if heard else 0)

    def teardown(self) -> None:
        """Nothing hangs: once all are back and time has passed, every rollout has ended or waits for a person."""
        if not hasattr(self, "fleet"):
            return
        self.store.commits_left = None
        for name in DEVICES:
            self.come_back(name)
        for _ in range(40):
            for name in DEVICES:
                self.finish(name, DeploymentState.COMMITTED)
            self.fleet.after_s(3000.0)
        for rollout, _ in self.fleet.rollouts.all():
            assert rollout.state in FINAL or rollout.state in (RolloutState.PAUSED, RolloutState.DRAFT), rollout
        for device in self.fleet.devices.values():
            assert device.heard == sorted(device.heard, key=lambda desired: desired.version)

    # ----------------------------------------------------------------------------------------------------------------

    def all_targets(self) -> list[Target]:
        return [target for _, targets in self.fleet.rollouts.all() for target in targets]

    def remember(self, name: str) -> None:
        device = self.fleet.devices[name]
        report = Reported(
            version=device._report_version, session=device.session, models=dict(device.models),
            desired_version=device._desired_version,
        )  # fmt: skip
        self.sent.append((name, messages.encode(report)))

    @contextlib.contextmanager
    def surviving(self) -> Iterator[None]:
        try:
            yield
        except Killed:
            self.fleet.kill_server()
            self.fleet.start_server()
            self.settle()

    def settle(self) -> None:
        while True:
            try:
                self.fleet.settle()
                return
            except Killed:
                self.fleet.kill_server()
                self.fleet.start_server()


RolloutMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestNoInvariantIsViolated = RolloutMachine.TestCase
