"""Collects the facts: this machine's, the installation's, the data folder's, and the daemon's where one runs."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from agent.config import AgentConfig
from agent.control import ask_daemon
from agent.device_facts import DeviceFacts
from agent.doctor.facts import ClockFacts, DiskFacts, DoctorFacts, LinkFacts, ModelFacts
from agent.errors import AgentError, BackendError
from agent.fleet_link.identity import load_identity
from edge_contracts import _version
from edge_contracts.capabilities import Capabilities
from edge_contracts.errors import ContractError
from edge_contracts.tensor_signature import Signature

EARLIEST_MS = 1_793_491_200_000
"""2026-11-01: no mindie is older, whatever the times of its files say."""
DATE_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class Daemon:
    """What a running daemon tells, or the data folder without one: `status`, and `facts` of tuning (may be empty)."""

    status: Mapping[str, Any]
    facts: Mapping[str, Any]
    is_running: bool


def gather(config: AgentConfig, environ: Mapping[str, str], now_ms: Callable[[], int]) -> DoctorFacts:
    """Asks much and changes nothing. Raises ConfigurationError for a damaged identity."""
    device = probed(config.data_dir)
    daemon = ask(config.data_dir)
    observation = daemon.facts.get("observation", {})
    return DoctorFacts(
        device=device, distributions=installed(), pip_lines=pip_lines(), clock=clock(config, now_ms),
        disk=disk(config.data_dir), models=models(config.data_dir, daemon), own_cpus=observation.get("own_cpus"),
        environ=environ, has_daemon=daemon.is_running, link=link(daemon),
    )  # fmt: skip


def probed(data_dir: Path) -> Capabilities:
    """This machine, with the runtimes that work."""
    return DeviceFacts(data_dir)()


def installed() -> dict[str, str]:
    """Distributions by lower-case name; one whose metadata is damaged is left out."""
    found: dict[str, str] = {}
    for one in distributions():
        name = one.metadata["Name"] if one.metadata is not None else None
        if name:
            found[name.lower().replace("_", "-")] = one.version
    return found


def pip_lines() -> dict[str, str]:
    """How to install each runtime."""
    from agent.inference.registry import backend, backend_names

    lines: dict[str, str] = {}
    for name in backend_names():
        try:
            lines[name] = backend(name).pip_line
        except BackendError:
            continue  # a plug-in that cannot be loaded shows as a broken runtime
    return lines


def clock(config: AgentConfig, now_ms: Callable[[], int]) -> ClockFacts:
    """The server is asked only where the device is enrolled; one that does not answer is no news of the clock."""
    identity = load_identity(config.data_dir)
    server_ms = server_time_ms(identity.server) if identity is not None else None
    return ClockFacts(now_ms=now_ms(), built_ms=_built_ms(Path(_version.__file__)), server_ms=server_ms)


def server_time_ms(server: str) -> int | None:
    """The Date header of any answer, an error's too."""
    if not server.startswith(("http://", "https://")):
        return None
    try:
        request = Request(f"{server}/healthz", method="HEAD")
        with urlopen(request, timeout=DATE_TIMEOUT_S, context=_unverified()) as answer:
            headers = answer.headers
    except HTTPError as error:
        headers = error.headers
    except (URLError, OSError, ValueError):
        return None
    try:
        return int(parsedate_to_datetime(headers.get("Date", "")).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def _unverified() -> ssl.SSLContext:
    """A clock that is off makes a good certificate look bad, and nothing but the time is taken from the answer."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def disk(data_dir: Path) -> DiskFacts | None:
    """Of the folder, or of the first one above it that exists."""
    place = next((folder for folder in (data_dir, *data_dir.parents) if folder.exists()), None)
    if place is None:
        return None
    try:
        usage = shutil.disk_usage(place)
    except OSError:
        return None
    return DiskFacts(str(place), usage.free, usage.total)


def ask(data_dir: Path) -> Daemon:
    """The daemon's words; without one the journal's. A daemon of another version may not know all questions."""
    from agent.update.journal import read_state
    from agent.update.report import status_document

    answers: dict[str, Any] = {}
    if (data_dir / "control.sock").exists():
        for verb in ("status", "facts"):
            try:
                answers[verb] = ask_daemon(data_dir, verb, {}, lambda _: None)
            except AgentError:
                answers[verb] = {}
    if answers.get("status"):
        return Daemon(answers["status"], answers.get("facts") or {}, is_running=True)
    try:
        return Daemon(status_document(read_state(data_dir), None, daemon=False), {}, is_running=False)
    except (AgentError, OSError):
        return Daemon({}, {}, is_running=False)


def link(daemon: Daemon) -> LinkFacts | None:
    """None: no daemon, not enrolled, or a daemon of an earlier version."""
    fleet = daemon.status.get("fleet")
    if not daemon.is_running or not fleet or not fleet.get("enrolled"):
        return None
    return LinkFacts(bool(fleet.get("connected")), fleet.get("detail"))


def models(data_dir: Path, daemon: Daemon) -> tuple[ModelFacts, ...]:
    """Those that are active, with what tuning knows of them."""
    tuned = {model["name"]: model for model in daemon.facts.get("models", [])}
    found = []
    for entry in daemon.status.get("models", []):
        active = entry.get("active")
        if active is None:
            continue
        now = tuned.get(entry["name"], {})
        threads = now.get("threads", active.get("options", {}).get("threads"))
        found.append(
            ModelFacts(
                name=entry["name"], runtime=active.get("runtime", ""), target=active.get("target", "cpu"),
                threads=threads if isinstance(threads, int) else None,
                open_dims=_open_dims(data_dir, entry["name"], active["digest"]),
                p50_ms=now.get("p50_ms"), p99_ms=now.get("p99_ms"), requests_per_s=now.get("requests_per_s"),
                queued=now.get("queued"),
            )
        )  # fmt: skip
    return tuple(found)


def open_dims(signature: Signature) -> dict[str, tuple[str, ...]]:
    """By input, the dimensions after the first that a request decides. Pure."""
    found = {spec.name: tuple(dim for dim in spec.shape[1:] if isinstance(dim, str)) for spec in signature.inputs}
    return {name: dims for name, dims in found.items() if dims}


def _open_dims(data_dir: Path, name: str, digest: str) -> dict[str, tuple[str, ...]]:
    from agent.inference.bundle_folder import open_bundle_folder

    folder = data_dir / "models" / name / "bundles" / digest.removeprefix("sha256:")[:12]
    try:
        return open_dims(open_bundle_folder(folder).bundle.spec.signature)
    except ContractError:
        return {}


def _built_ms(file: Path) -> int:
    """When this installation's files were written: the clock has been there already."""
    try:
        return max(EARLIEST_MS, int(file.stat().st_mtime * 1000))
    except OSError:
        return EARLIEST_MS
