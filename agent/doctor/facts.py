"""What `mindie doctor` looks at. Values only; None means unknown, and what is unknown is no finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge_contracts.capabilities import Capabilities


@dataclass(frozen=True)
class ClockFacts:
    """Unix milliseconds. ``built_ms``: this installation is not older. ``server_ms``: the fleet server's Date, asked at
    ``now_ms``."""

    now_ms: int
    built_ms: int | None = None
    server_ms: int | None = None


@dataclass(frozen=True)
class DiskFacts:
    """The file system of the data folder."""

    path: str
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class LinkFacts:
    """The daemon's connection to its fleet, of an enrolled device. ``detail``: why there is none, where known."""

    connected: bool
    detail: str | None = None


@dataclass(frozen=True)
class ModelFacts:
    """A model that is active. ``open_dims``: inputs with dimensions other than the batch that a request decides.

    threads: in effect; None where the runtime was not told. The figures are the last interval's, from the daemon.
    """

    name: str
    runtime: str = ""
    target: str = "cpu"
    threads: int | None = None
    open_dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    p50_ms: float | None = None
    p99_ms: float | None = None
    requests_per_s: float | None = None
    queued: int | None = None


@dataclass(frozen=True)
class DoctorFacts:
    """Everything. ``distributions``: installed Python packages, lower-case name to version.

    own_cpus: CPUs' worth of time that the daemon's processes took. ``environ``: variables that set threads.
    """

    device: Capabilities = field(default_factory=Capabilities)
    distributions: Mapping[str, str] = field(default_factory=dict)
    pip_lines: Mapping[str, str] = field(default_factory=dict)
    clock: ClockFacts | None = None
    disk: DiskFacts | None = None
    link: LinkFacts | None = None
    models: tuple[ModelFacts, ...] = ()
    own_cpus: float | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    has_daemon: bool = False
