"""The agent's configuration: one frozen tree, read once.

Sources, the later wins: the built-in defaults, the TOML file (``--config`` or MINDEDGE_CONFIG), the environment, flags.

    host = "0.0.0.0"                 MINDEDGE_AGENT_HOST=0.0.0.0             --host 0.0.0.0
    [link]
    keepalive_s = 30                 MINDEDGE_AGENT_LINK_KEEPALIVE_S=30

The data folder is ``data_dir``, MINDEDGE_DATA or ``--data``. An unknown key or variable is an error that names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from agent.errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA_VARIABLE = "MINDEDGE_DATA"
CONFIG_VARIABLE = "MINDEDGE_CONFIG"
PREFIX = "MINDEDGE_AGENT_"

Seconds = Annotated[float, msgspec.Meta(gt=0, le=31_536_000)]
SecondsOrZero = Annotated[float, msgspec.Meta(ge=0, le=31_536_000)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the TOML file."""


class UpdateConfig(_Section, frozen=True, kw_only=True):
    """How a bundle is proven. Deadlines are per state of one deployment; a policy sent by the fleet wins over these."""

    allow_unsigned: bool = False
    soak_s: SecondsOrZero = 60.0
    local_soak_s: SecondsOrZero = 0.0
    max_p90_ratio: Annotated[float, msgspec.Meta(ge=1.0)] = 1.10
    max_drop: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    proof_pairs: Annotated[int, msgspec.Meta(ge=50)] = 50
    queued_deadline_s: Seconds = 86_400.0
    downloading_deadline_s: Seconds = 21_600.0
    verifying_deadline_s: Seconds = 1_800.0
    installing_deadline_s: Seconds = 1_800.0
    probing_deadline_s: Seconds = 1_800.0
    trial_deadline_s: Seconds = 3_600.0


class DownloadConfig(_Section, frozen=True, kw_only=True):
    """``stall_timeout_s``: no ``stall_bytes`` within it counts as stalled. ``max_bytes_per_s`` 0: no limit."""

    connect_timeout_s: Seconds = 5.0
    stall_timeout_s: Seconds = 30.0
    stall_bytes: Count = 1024
    max_bytes_per_s: Annotated[int, msgspec.Meta(ge=0)] = 0
    first_retry_s: Seconds = 1.0
    longest_retry_s: Seconds = 60.0
    ca_file: str | None = None
    proxy: str | None = None


class LinkConfig(_Section, frozen=True, kw_only=True):
    """``hosts``: broker addresses HOST or HOST:PORT tried in turn; empty: the one told at enrolment."""

    hosts: list[str] = []
    keepalive_s: Count = 30
    connect_timeout_s: Seconds = 5.0
    first_retry_s: Seconds = 1.0
    longest_retry_s: Seconds = 120.0
    stable_s: Seconds = 60.0
    takeover_sessions: Count = 4
    takeover_wait_s: Seconds = 300.0
    ca_file: str | None = None
    max_outbox_events: Count = 200


class ServingConfig(_Section, frozen=True, kw_only=True):
    """The data plane. ``batch``: waiting requests run together, ``max_batch`` rows at most. The rest are limits, and
    ``token_file`` (clients must send its content as a bearer token), ``tls_cert`` and ``tls_key`` (PEM files).
    """

    uds: str | None = None
    batch: bool = False
    max_batch: Count = 8
    max_delay_ms: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 2.0
    max_body_mb: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 64
    max_queue: Count = 256
    request_timeout_s: Seconds = 60.0
    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None


class TelemetryConfig(_Section, frozen=True, kw_only=True):
    """How often latency and load are sent."""

    interval_s: Seconds = 30.0


class AgentConfig(_Section, frozen=True, kw_only=True):
    """The whole tree. ``cpus``: CPUs to use, in the kernel's list form "0,2-3"; None: those this process may use.

    ``measure_at_start``: memory bandwidth and arithmetic are measured once, when the device is quiet.
    """

    data_dir: Path
    host: str = "127.0.0.1"
    port: Port = 8000
    cpus: str | None = None
    objective: Literal["latency", "throughput", "memory"] = "latency"
    race_budget_s: Seconds = 20.0
    reserve_mb: Annotated[int, msgspec.Meta(ge=0)] = 64
    drain_s: SecondsOrZero = 10.0
    measure_at_start: bool = True
    update: UpdateConfig = UpdateConfig()
    download: DownloadConfig = DownloadConfig()
    link: LinkConfig = LinkConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    serving: ServingConfig = ServingConfig()


FLAGS = {
    "data": "data_dir", "host": "host", "port": "port", "cpus": "cpus", "race_budget": "race_budget_s",
    "objective": "objective", "telemetry_s": "telemetry.interval_s", "uds": "serving.uds",
    "enable_batch_inference": "serving.batch", "max_batch": "serving.max_batch",
    "max_delay_ms": "serving.max_delay_ms", "max_body_mb": "serving.max_body_mb", "max_queue": "serving.max_queue",
    "request_timeout": "serving.request_timeout_s", "client_token_file": "serving.token_file",
    "tls_cert": "serving.tls_cert", "tls_key": "serving.tls_key",
}  # fmt: skip
"""Attribute of the parsed command line -> key. A command has those of them that it offers."""
FLAG_NAMES = {"client_token_file": "--token-file"}
"""Of the attributes that are not called as their flag is."""


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """/var/lib/mindedge/agent for root, else ~/.local/share/mindedge/agent."""
    if os.geteuid() == 0:
        return Path("/var/lib/mindedge/agent")
    return Path(environ.get("HOME") or "~").expanduser() / ".local/share/mindedge/agent"


def load_config(args: object, environ: Mapping[str, str]) -> AgentConfig:
    """Read all sources. ``args`` is the parsed command line. Raises ConfigurationError naming its place."""
    merged: dict[str, Any] = {"data_dir": str(default_data_dir(environ))}
    config_file = getattr(args, "config", None) or environ.get(CONFIG_VARIABLE)
    if config_file:
        _merge(merged, _checked(_read_toml(Path(config_file)), str(config_file)))
    for variable, layer in _environment(environ):
        _merge(merged, _checked(layer, variable))
    for flag, key in FLAGS.items():
        value = getattr(args, flag, None)
        if value is not None:
            section, _, last = key.rpartition(".")
            layer = {section: {last: str(value)}} if section else {key: str(value)}
            _merge(merged, _checked(layer, FLAG_NAMES.get(flag, "--" + flag.replace("_", "-"))))
    config = _convert(merged, "configuration")
    if (config.serving.tls_cert is None) != (config.serving.tls_key is None):
        raise ConfigurationError("--tls-cert", "needs --tls-key, and the other way round")
    return msgspec.structs.replace(config, data_dir=config.data_dir.expanduser().absolute())


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        tree: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), f"is not TOML: {error}") from error
    return tree


def _environment(environ: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    layers: list[tuple[str, dict[str, Any]]] = []
    sections = {name: kind for name, kind in get_type_hints(AgentConfig).items() if _is_section(kind)}
    if environ.get(DATA_VARIABLE):
        layers.append((DATA_VARIABLE, {"data_dir": environ[DATA_VARIABLE]}))
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        key = variable[len(PREFIX) :].lower()
        section = next((name for name in sections if key.startswith(name + "_")), None)
        value = _list_or_text(environ[variable], section, key)
        layers.append((variable, {section: {key[len(section) + 1 :]: value}} if section else {key: value}))
    return layers


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, _Section)


def _list_or_text(text: str, section: str | None, key: str) -> str | list[str]:
    if (section, key) == ("link", "link_hosts"):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _checked(layer: dict[str, Any], where: str) -> dict[str, Any]:
    """``layer`` unchanged, if it alone is a valid part of the tree."""
    _convert({"data_dir": "/", **layer}, where)
    return layer


def _convert(tree: dict[str, Any], where: str) -> AgentConfig:
    try:
        return msgspec.convert(tree, AgentConfig, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise ConfigurationError(where, str(error)) from error


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    raise ValueError("Expected a path")


def _merge(into: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value
