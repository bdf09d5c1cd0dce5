"""What the REST API takes and gives: used as they are by server, CLI and TUI. Imports no web framework.

Times are Unix milliseconds, latencies milliseconds, shares fractions unless named ``_pct``.
"""

from __future__ import annotations

import msgspec

from edge_contracts.bundle import Accuracy, LeftOut
from edge_contracts.evidence import ChoiceEvidence
from edge_contracts.messages import Policy
from fleet.domain.targeting import Selector
from fleet.domain.wave import Tally, WavePolicy


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. ``detail`` is one line that names the field or thing and the way out."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


class BackendView(msgspec.Struct, frozen=True, kw_only=True):
    """The backend in effect, as the device reported it (never what the server wished)."""

    variant: str
    runtime: str
    precision: str
    target: str
    provider: str | None = None
    threads: int | None = None
    options: dict[str, int | float | str | bool] = {}


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """One model name on one device.

    version, digest, backend: what serves; None: nothing does. deployment, state, reason, error_code: the last
    deployment that touched it. p50_ms, p90_ms, requests: of the active bundle as served, over the server's window
    (total stage); no percentiles of fewer than 20 requests. race_p50_ms, race_p90_ms: as raced before it served.
    ratio_vs_onnxruntime_default: above 1 is faster; measured by the device in its race, as accuracy is
    (``accuracy_metric`` "top1" or "agreement"). chosen: the choice in short; why: at length.
    """

    name: str
    version: str | None = None
    digest: str | None = None
    signed: bool = False
    backend: BackendView | None = None
    deployment: str | None = None
    state: str | None = None
    reason: str | None = None
    error_code: str | None = None
    attempted_version: str | None = None
    last_good_version: str | None = None
    desired_version: str | None = None
    healthy: bool = True
    regressed: str | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    requests: int = 0
    race_p50_ms: float | None = None
    race_p90_ms: float | None = None
    ratio_vs_onnxruntime_default: float | None = None
    accuracy: float | None = None
    accuracy_drop: float | None = None
    accuracy_metric: str | None = None
    why: str | None = None
    chosen: str | None = None


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """One device. ``board``: profile or model; None: unknown. ``state``: active, quarantined or decommissioned."""

    id: str
    site: str
    state: str
    online: bool
    labels: dict[str, str] = {}
    board: str | None = None
    soc: str | None = None
    cpu_model: str | None = None
    budget_cpus: float | None = None
    memory_mb: int | None = None
    agent_version: str | None = None
    serving_port: int | None = None
    enrolled_at_ms: int | None = None
    last_seen_ms: int | None = None
    temp_c: float | None = None
    throttled: bool | None = None
    rss_mb: float | None = None
    cpu_percent: float | None = None
    models: list[ModelView] = []


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """Something a device found worth telling."""

    device: str
    at_ms: int
    kind: str
    text: str
    model: str | None = None
    deployment: str | None = None


class DeviceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A device with its choices (by model name) and latest events, newest first."""

    device: DeviceView
    evidence: dict[str, ChoiceEvidence] = {}
    events: list[EventView] = []


class DevicePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[DeviceView]
    next: str | None = None


class BundleView(msgspec.Struct, frozen=True, kw_only=True):
    """A registered bundle. ``variants``: their names. ``size_bytes``: all blobs together."""

    name: str
    version: str
    digest: str
    signed: bool
    variants: list[str]
    size_bytes: int
    registered_ms: int


class VariantView(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of a bundle. ``accuracy``: against the source, as measured while it was built."""

    name: str
    runtime: str
    precision: str
    target: str
    size_bytes: int
    accuracy: Accuracy | None = None


class BundleDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle with its variants and what was asked for and left out."""

    bundle: BundleView
    variants: list[VariantView]
    left_out: list[LeftOut] = []


class BundlePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[BundleView]
    next: str | None = None


class BundleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Registers a bundle whose blobs and index were pushed under ``/v2/NAME/``. All blobs must be there."""

    name: str
    digest: str
    allow_unsigned: bool = False


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``server``: the address that devices will use; None: the one this request came to. expires_s None: never."""

    uses: int = 1
    expires_s: float | None = 86400.0
    site: str = "default"
    labels: dict[str, str] = {}
    server: str | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """An enrolment token without its secret, which only its maker saw."""

    id: str
    site: str
    uses_left: int
    created_ms: int
    expires_ms: int | None = None


class TokenCreated(msgspec.Struct, frozen=True, kw_only=True):
    """``token`` is the whole line for the device, told once."""

    id: str
    token: str
    expires_ms: int | None = None


class TokenPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[TokenView]
    next: str | None = None


class RolloutRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new rollout of a registered bundle. ``policy`` goes to the devices; ``tail`` is for late ones."""

    bundle: str
    version: str
    name: str | None = None
    selector: Selector = msgspec.field(default_factory=Selector)
    waves: list[WavePolicy] = msgspec.field(default_factory=lambda: [WavePolicy()])
    tail: WavePolicy | None = None
    max_in_flight: int = 100
    policy: Policy = Policy()
    deadlines_s: dict[str, float] = {}
    tail_expires_s: float = 7 * 86400.0
    start: bool = False


class WaveView(msgspec.Struct, frozen=True, kw_only=True):
    """``number`` counts from 1; the tail wave is the last one, ``tail`` true, shown only when it has devices.

    state: of the wave; once the rollout is over, "aborted", "rolled_back" or "not_begun" for one it left open.
    """

    number: int
    state: str
    policy: WavePolicy
    counts: Tally
    tail: bool = False
    why: str | None = None
    opened_ms: int | None = None
    judged_ms: int | None = None


class RolloutDeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """A device in a rollout. state: "waiting" (not asked yet), or a deployment state. ``wave`` counts from 1."""

    device: str
    wave: int
    state: str
    deployment: str
    online: bool
    kind: str = "install"
    attempt: int = 1
    reason: str | None = None
    error_code: str | None = None
    straggler: bool = False
    regressed: str | None = None
    asked_ms: int | None = None
    contacted_ms: int | None = None
    changed_ms: int | None = None


class RolloutView(msgspec.Struct, frozen=True, kw_only=True):
    """``why``: why it is in its state, above all why it stopped. ``verbs``: what may be done to it now.

    ``devices`` is empty in lists. ``awaiting_late``: all planned waves are done, and only late devices that have not
    been heard of are still open.
    """

    id: str
    name: str
    bundle: str
    version: str
    digest: str
    state: str
    created_ms: int
    max_in_flight: int
    waves: list[WaveView]
    counts: Tally
    verbs: list[str]
    why: str | None = None
    matched: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    awaiting_late: bool = False
    allow_unsigned: bool = False
    devices: list[RolloutDeviceView] = []


class RolloutPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[RolloutView]
    next: str | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """``status``: "ok", or "degraded" with the reasons; the server serves HTTP in both."""

    status: str
    version: str
    broker_connected: bool
    mqtt_port: int
    reasons: list[str] = []
