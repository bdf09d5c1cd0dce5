"""A device in small that speaks edge_contracts: announces itself, hears wishes, goes through the states, reports.

What it does with a version is told beforehand: ``device.plans["2.0.0"] = Plan.FAIL``. Everything happens in the thread
that delivers the message, so with the in-process broker nothing has to be waited for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

import msgspec

from edge_contracts import messages, topics
from edge_contracts.capabilities import BoardFacts, Capabilities, CpuFacts
from edge_contracts.deployment import DeploymentState as S
from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence, Latency
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import (
    ActiveModel,
    Birth,
    BundleRef,
    Desired,
    DesiredModel,
    Event,
    Reported,
    ReportedModel,
    StageLatency,
    Status,
    Telemetry,
)

CAPABILITIES = Capabilities(board=BoardFacts(profile="simulated", soc="none"), cpu=CpuFacts(budget_cpus=2.0))


class Plan(enum.Enum):
    """COMMIT and FAIL go through all states; STOP_IN_TRIAL goes no further than trial; DEAF does not react."""

    COMMIT = "commit"
    FAIL = "fail"
    STOP_IN_TRIAL = "stop in trial"
    DEAF = "deaf"


class Wire(Protocol):
    """The connection: what MemoryConnection and a paho client can both be made to look like."""

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None: ...


class SimulatedDevice:
    """``fetch(model, digest)`` is called where a device downloads; an exception from it is a failed download."""

    def __init__(self, device: str, site: str = "default", fetch: Callable[[str, str], None] | None = None) -> None:
        self.device = device
        self.site = site
        self.plans: dict[str, Plan] = {}
        self.session = 0
        self.models: dict[str, ReportedModel] = {}
        self.heard: list[Desired] = []
        self._fetch = fetch or (lambda model, digest: None)
        self._wire: Wire | None = None
        self._report_version = 0
        self._desired_version: int | None = None
        self._events = 0

    # --- connection -----------------------------------------------------------------------------------------------

    def will(self) -> tuple[str, bytes]:
        """For the connection that is about to be made; counts the session on."""
        self.session += 1
        return self._topic("status"), messages.encode(Status(online=False, session=self.session))

    def connected(self, wire: Wire) -> None:
        """Announces everything, as on every connect."""
        self._wire = wire
        birth = Birth(
            session=self.session, agent_version="0.0.0", capabilities=CAPABILITIES, at_ms=1, serving_port=8000
        )
        self._send("birth", birth, retain=True)
        self._send("status", Status(online=True, session=self.session), retain=True)
        self._report()

    def down_topic(self) -> str:
        return topics.device_down_filter(self.site, self.device)

    def received(self, topic: str, payload: bytes) -> None:
        """A message of the broker."""
        if topics.parse(topic).kind != "desired":
            return
        desired = messages.decode(payload, Desired)
        self.heard.append(desired)
        self._desired_version = desired.version
        self._report()
        for model, wanted in desired.models.items():
            known = self.models.get(model)
            if known is None or known.deployment != wanted.deployment:
                self._deploy(model, wanted)
        for model in [name for name in self.models if name not in desired.models]:
            del self.models[model]
            self._report()

    # --- what a test makes it do ------------------------------------------------------------------------------------

    def regress(self, model: str, why: str) -> None:
        """Falls back after the commit."""
        entry = self.models[model]
        self._set(model, msgspec.structs.replace(entry, regressed=why, healthy=False))

    def finish(self, model: str, state: S, reason: str | None = None) -> None:
        """Ends a deployment that stopped in its trial."""
        entry = self.models[model]
        assert entry.attempted is not None
        active = _active(entry.attempted) if state is S.COMMITTED else entry.active
        self._set(model, msgspec.structs.replace(entry, state=state, reason=reason, active=active))

    def serving(self, model: str) -> str | None:
        """The version that serves."""
        entry = self.models.get(model)
        return entry.active.version if entry is not None and entry.active is not None else None

    def telemetry(self, model: str, latencies_ms: list[float], to_ms: int) -> None:
        sketch = LatencySketch()
        for value in latencies_ms:
            sketch.add(value * 1000)
        active = self.models[model].active
        assert active is not None
        stage = StageLatency(
            version=active.version, digest=active.digest, stages={"total": sketch.to_data()},
            requests=len(latencies_ms),
        )  # fmt: skip
        self._send("telemetry", Telemetry(session=self.session, from_ms=0, to_ms=to_ms, models={model: stage}))

    def event(self, kind: str, text: str) -> None:
        self._events += 1
        self._send("event", Event(id=f"e{self._events}", at_ms=self._events, kind=kind, text=text))

    # ----------------------------------------------------------------------------------------------------------------

    def _deploy(self, model: str, wanted: DesiredModel) -> None:
        plan = self.plans.get(wanted.version, Plan.COMMIT)
        if plan is Plan.DEAF:
            return
        before = self.models.get(model)
        active = before.active if before is not None else None
        attempted = BundleRef(version=wanted.version, digest=wanted.digest)
        entry = ReportedModel(deployment=wanted.deployment, state=S.QUEUED, attempted=attempted, active=active)
        for state in (S.QUEUED, S.DOWNLOADING, S.VERIFYING, S.INSTALLING, S.PROBING, S.TRIAL):
            self._set(model, msgspec.structs.replace(entry, state=state))
            if state is S.DOWNLOADING:
                try:
                    self._fetch(model, wanted.digest)
                except OSError as error:
                    failed = msgspec.structs.replace(
                        entry, state=S.FAILED, reason=f"download: {error}", error_code="download"
                    )
                    self._set(model, failed)
                    return
        if plan is Plan.FAIL:
            failed = msgspec.structs.replace(
                entry, state=S.FAILED, reason="8 of 8 golden outputs differ", error_code="golden_mismatch"
            )
            self._set(model, failed)
        elif plan is Plan.COMMIT:
            done = msgspec.structs.replace(entry, state=S.COMMITTED, active=_active(attempted), evidence=_evidence())
            self._set(model, done)

    def _set(self, model: str, entry: ReportedModel) -> None:
        self.models[model] = entry
        self._report()

    def _report(self) -> None:
        self._report_version += 1
        report = Reported(
            version=self._report_version, session=self.session, models=dict(self.models),
            desired_version=self._desired_version,
        )  # fmt: skip
        self._send("reported", report, retain=True)

    def _send(self, kind: str, message: object, *, retain: bool = False) -> None:
        if self._wire is not None:
            self._wire.publish(self._topic(kind), messages.encode(message), retain)

    def _topic(self, kind: str) -> str:
        return topics.up(self.site, self.device, kind)


def _active(bundle: BundleRef) -> ActiveModel:
    return ActiveModel(
        version=bundle.version, digest=bundle.digest, variant="stub", runtime="stub", precision="fp32",
        options={"threads": 1},
    )  # fmt: skip


def _evidence() -> ChoiceEvidence:
    chosen = CandidateEvidence(
        name="stub", variant="stub", runtime="stub", precision="fp32", status="chosen",
        latency=Latency(p50_ms=1.0, p90_ms=1.5, samples=10),
    )  # fmt: skip
    return ChoiceEvidence(chosen=chosen, why="it was the only one", ratio_vs_onnxruntime_default=1.5)
