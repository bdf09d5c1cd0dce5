"""What this device is, probed once per process and again when asked."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent.config import AgentConfig
from agent.errors import ConfigurationError
from agent.measured_figures import keep_figures, with_kept_figures
from edge_contracts.capabilities import Capabilities, RuntimeFact

FACTS_FILE = "runtime_facts.json"


class DeviceFacts:
    """Thread-safe. Runtimes are asked in child processes; answers, and what was measured once, are kept in DATA."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._lock = threading.Lock()
        self._facts: Capabilities | None = None

    def __call__(self) -> Capabilities:
        """The facts as first probed, with what changes by the minute (memory) as of then."""
        with self._lock:
            if self._facts is None:
                self._facts = self._probe()
            return self._facts

    def refresh(self) -> Capabilities:
        """Probe again: a runtime may have been installed, a USB accelerator plugged in."""
        facts = self._probe()
        with self._lock:
            self._facts = facts
        return facts

    def keep_measured(self, facts: Capabilities) -> None:
        """``facts`` as measured by now; the figures are kept for the next start too."""
        keep_figures(self._data_dir, facts)
        with self._lock:
            self._facts = facts

    def _probe(self) -> Capabilities:
        from agent.hardware.probe import probe
        from agent.hardware.sysfs import this_machine

        asked = RuntimesAsked(facts_cache_file(self._data_dir, os.environ))
        facts = probe(this_machine())
        return with_kept_figures(self._data_dir, msgspec.structs.replace(facts, runtimes=asked.answers()))


class RuntimesAsked:
    """Which runtimes work here, asked while the caller does something else: their imports are what takes long."""

    def __init__(self, cache_file: Path | None) -> None:
        self._cache_file = cache_file
        self._facts: list[RuntimeFact] = []
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._ask, name="runtimes", daemon=True)
        self._thread.start()

    def answers(self) -> list[RuntimeFact]:
        """Waits for them. Raises OSError when no process could be started."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._facts

    def _ask(self) -> None:
        from agent.inference.registry import runtime_facts

        try:
            self._facts = runtime_facts(cache_file=self._cache_file)
        except OSError as error:
            self._error = error


def facts_cache_file(data_dir: Path, environ: Mapping[str, str]) -> Path | None:
    """In the data folder where there is one that we may write to, else in the user's cache folder, else nowhere."""
    if os.access(data_dir, os.W_OK):
        return data_dir / "cache" / FACTS_FILE
    cache_home = environ.get("XDG_CACHE_HOME") or (f"{environ['HOME']}/.cache" if environ.get("HOME") else None)
    return Path(cache_home) / "mindedge" / FACTS_FILE if cache_home else None


def affinity_of(config: AgentConfig) -> frozenset[int] | None:
    """The CPUs of ``cpus``; None when it is not set. Raises ConfigurationError for what is no list of CPUs here."""
    if config.cpus is None:
        return None
    from agent.hardware.cpu_list import parse, render

    try:
        wanted = frozenset(parse(config.cpus))
    except ValueError as error:
        raise ConfigurationError("--cpus", f"{config.cpus!r} is not a list of CPUs such as 0,2-3") from error
    allowed = os.sched_getaffinity(0)
    if not wanted or not wanted <= allowed:
        raise ConfigurationError("--cpus", f"{config.cpus!r} is not among the CPUs this process may use: "
                                 f"{render(allowed)}")  # fmt: skip
    return wanted


def fingerprint(machine_id: Path = Path("/etc/machine-id")) -> str | None:
    """A stable hash of this installation's id, never the id itself; None where there is none."""
    try:
        text = machine_id.read_text().strip()
    except OSError:
        return None
    return hashlib.sha256(f"mindedge {text}".encode()).hexdigest() if text else None
