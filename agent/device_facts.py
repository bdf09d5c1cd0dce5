"""What this device is, probed once per process and again when asked."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from agent.config import AgentConfig
from agent.errors import ConfigurationError
from edge_contracts.capabilities import Capabilities


class DeviceFacts:
    """Thread-safe. Runtimes are asked in child processes, answers are kept under DATA/cache."""

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

    def _probe(self) -> Capabilities:
        from agent.hardware.probe import probe
        from agent.hardware.sysfs import this_machine
        from agent.inference.registry import runtime_facts

        runtimes = runtime_facts(cache_file=self._data_dir / "cache" / "runtime_facts.json")
        return probe(this_machine(), runtimes)


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
