"""What the daemon (or ``mindie serve``) and the server process say to each other, msgpack frames on a socketpair.

    daemon -> server   Configure once, then Load, Unload, Drain (statistics), Look (snapshot), Stop
    server -> daemon   Done or Refused for each of these by ``call``, and EngineEvent at any time

When the socket closes, the server ends.
"""

from __future__ import annotations

import msgspec

from edge_contracts.evidence import ChoiceEvidence, OptionValue
from edge_contracts.messages import StageLatency


class Batching(msgspec.Struct, frozen=True, kw_only=True):
    """Dynamic batching, where the signature allows it: wait up to ``max_delay_ms`` to run up to ``max_batch`` rows."""

    max_batch: int = 8
    max_delay_ms: float = 2.0


class ServingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the server serves. ``max_queue``: requests waiting for a model beyond which 503 is answered.

    request_timeout_s: from arrival to answer. hang_timeout_s: a request that runs longer is taken for a hang of the
    engine. token_file: clients must send its content as a bearer token. tls_cert, tls_key: PEM files.
    cache_dir: where runtimes may keep compiled models.
    """

    max_body_bytes: int = 64 * 1024 * 1024
    max_json_bytes: int = 16 * 1024 * 1024
    max_connections: int = 1000
    max_queue: int = 256
    idle_timeout_s: float = 75.0
    receive_timeout_s: float = 20.0
    request_timeout_s: float = 60.0
    hang_timeout_s: float = 30.0
    load_timeout_s: float = 300.0
    batching: Batching | None = None
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    cache_dir: str | None = None


class ServedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model to serve. ``folder``: a BundleFolder. ``python``: interpreter of its runtime environment; None: ours.

    fixed_shapes: shapes, by input, to which requests are held where the signature leaves dimensions open.
    beside: other versions of that name go on serving; a request that names no version gets the one loaded last.
    batching: of this model alone; None: as ServingOptions say.
    """

    name: str
    version: str
    digest: str
    folder: str
    variant: str
    options: dict[str, OptionValue] = {}
    signed: bool = False
    evidence: ChoiceEvidence | None = None
    python: str | None = None
    fixed_shapes: dict[str, list[int]] = {}
    beside: bool = False
    batching: Batching | None = None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The provider in effect, and the time of one inference when warm, in milliseconds."""

    provider: str
    warm_ms: float


class EngineEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to engine or server.

    kind: "engine.crashed" (``model``: whose request or load was running, if known), "engine.restarted", "model.failed"
    (it cannot be loaded again; its requests get 503), "request.refused" (it killed the engine twice),
    "server.crashed", "server.restarted". ``crashes``: deaths of the engine so far that are blamed on that model.
    """

    kind: str
    text: str
    model: str | None = None
    version: str | None = None
    reason: str | None = None
    crashes: int = 0


class ModelState(msgspec.Struct, frozen=True, kw_only=True):
    """A served model as it is now. ``ready``: an engine holds it warm. ``reason``: why not."""

    name: str
    version: str
    digest: str
    variant: str
    ready: bool
    provider: str | None = None
    warm_ms: float = 0.0
    reason: str | None = None
    queued: int = 0
    in_flight: int = 0
    requests: int = 0
    errors: int = 0
    crashes: int = 0


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """The server as it is now; rss in MB (10^6 bytes)."""

    pid: int
    engine_pids: list[int]
    models: list[ModelState]
    connections: int = 0
    rss_mb: float = 0.0
    engine_rss_mb: float = 0.0
    engine_restarts: int = 0


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    """The first message. ``expected``: models that will be loaded: until then they are not ready, and not unknown."""

    call: int
    options: ServingOptions
    expected: list[str] = []


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Answered when the model is warm and serves."""

    call: int
    model: ServedModel


class Unload(msgspec.Struct, frozen=True, tag="unload"):
    """Answered when no new request goes to the model; those in flight are still answered. Version None: all."""

    call: int
    name: str
    version: str | None = None


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Statistics since the last Drain."""

    call: int


class Look(msgspec.Struct, frozen=True, tag="look"):
    """The state."""

    call: int


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Accept nothing more, answer what is in flight for at most ``drain_s``, then end."""

    call: int
    drain_s: float


class ModelStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Latency of one model version."""

    name: str
    latency: StageLatency


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done", omit_defaults=True):
    """``call`` has been done; one of the others is set where there is something to tell."""

    call: int
    loaded: Loaded | None = None
    statistics: list[ModelStatistics] | None = None
    state: ServerState | None = None


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """``call`` could not be done."""

    call: int
    reason: str


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    """An event."""

    event: EngineEvent


ToServer = Configure | Load | Unload | Drain | Look | Stop
FromServer = Done | Refused | Happened
