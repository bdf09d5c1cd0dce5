"""The MQTT payloads: JSON, encoded and decoded here only.

Unknown fields are tolerated, unknown enum values become UNKNOWN; anything else that does not fit is MalformedMessage.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from edge_contracts.capabilities import Capabilities
from edge_contracts.deployment import DeploymentState
from edge_contracts.errors import MalformedMessage
from edge_contracts.evidence import ChoiceEvidence
from edge_contracts.latency import SketchData

MAX_PAYLOAD_BYTES = 1024 * 1024 - 4096


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Retained; also the last will. A death whose session differs from the current birth's is ignored."""

    online: bool
    session: int


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """Retained; sent at every connect. ``session`` grows with each connection of the device."""

    session: int
    agent_version: str
    capabilities: Capabilities
    at_ms: int
    serving_port: int | None = None


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a deployment is to be proven on the device. None: the device's own configuration decides.

    soak_s: seconds of trial serving before commit. max_p90_ratio: new/old p90 accepted (as a rule 1.10).
    slo_p95_ms: absolute limit. race_budget_s: time for the race. objective: latency | throughput | memory.
    """

    soak_s: float | None = None
    max_p90_ratio: float | None = None
    slo_p95_ms: float | None = None
    race_budget_s: float | None = None
    objective: str | None = None
    allow_unsigned: bool = False


class DesiredModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the wish: which bundle (by digest) by which deployment. No URLs: sources are configuration."""

    deployment: str
    version: str
    digest: str
    policy: Policy = Policy()


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """The whole wish for a device (retained). A model that is absent is to be removed. ``version`` only grows."""

    version: int
    models: dict[str, DesiredModel]


class BundleRef(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle by version and digest."""

    version: str
    digest: str


class ActiveModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What really serves: bundle, variant and the backend in effect."""

    version: str
    digest: str
    variant: str
    runtime: str
    precision: str
    options: dict[str, int | float | str | bool] = {}
    provider: str | None = None
    target: str = "cpu"
    signed: bool = False


class ReportedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of the truth. ``deployment``, ``state``, ``reason``: the last deployment that touched it.

    attempted: the bundle that deployment is or was about. error_code: a stable word for a failure ("golden_mismatch",
    "slower", "no_candidate", "download", "digest", "unsigned", "no_space", "incompatible", "crash", "internal").
    """

    deployment: str | None
    state: DeploymentState
    reason: str | None = None
    error_code: str | None = None
    attempted: BundleRef | None = None
    active: ActiveModel | None = None
    last_good: BundleRef | None = None
    healthy: bool = True
    regressed: str | None = None
    evidence: ChoiceEvidence | None = None


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """The whole truth of a device (retained). ``version`` grows with every change, across restarts."""

    version: int
    session: int
    models: dict[str, ReportedModel]
    desired_version: int | None = None


class StageLatency(msgspec.Struct, frozen=True, kw_only=True):
    """Sketches by stage ("queue", "input", "infer", "output", "total") of a model version since the last telemetry."""

    version: str
    digest: str
    stages: dict[str, SketchData]
    requests: int = 0
    errors: int = 0


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Periodic; covers ``from_ms`` to ``to_ms`` (Unix milliseconds). Coalesced while offline."""

    session: int
    from_ms: int
    to_ms: int
    models: dict[str, StageLatency] = {}
    rss_mb: float | None = None
    cpu_percent: float | None = None
    temp_c: float | None = None
    throttled: bool | None = None
    dropped_messages: int = 0


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something worth an operator's eye. ``id`` is unique per device; kinds are dotted words ("engine.crashed")."""

    id: str
    at_ms: int
    kind: str
    text: str
    model: str | None = None
    deployment: str | None = None
    facts: dict[str, str | int | float | bool | None] = {}


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Never retained; done at most once by ``id``, never after ``expires_at_ms``. Kinds: "refresh", "rollback"."""

    id: str
    kind: str
    expires_at_ms: int
    args: dict[str, str] = {}


T = TypeVar("T", Status, Birth, Desired, Reported, Telemetry, Event, Command)


def encode(message: Any) -> bytes:
    """The payload. Raises MalformedMessage when it exceeds the size that every broker accepts."""
    payload = msgspec.json.encode(message)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise MalformedMessage(type(message).__name__.lower(), f"{len(payload)} bytes; at most {MAX_PAYLOAD_BYTES}")
    return payload


def decode(payload: bytes, kind: type[T]) -> T:
    """Parse a payload as ``kind``. Raises MalformedMessage naming the kind and the field, whatever the bytes are."""
    what = kind.__name__.lower()
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise MalformedMessage(what, f"{len(payload)} bytes; at most {MAX_PAYLOAD_BYTES} are read")
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(what, str(error)) from error
