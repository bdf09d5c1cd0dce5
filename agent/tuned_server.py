"""The server with tuning on top: what the update machine loads is home, what tuning applies is current.

The update machine loads and unloads through it as it would on the server itself; a lock lets neither undo the other.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from agent.errors import LoadFailed, ServingError
from agent.inference.bundle_folder import open_bundle_folder
from agent.serving.batching import batch_dimension
from agent.serving.control import Batching, Loaded, ServedModel, ServerState
from agent.tuning.model_tuning import (
    BATCH_WINDOW,
    CPUS,
    KNOBS_OF_RUNTIME,
    THREADS,
    ModelTuning,
    from_options,
    to_options,
)
from agent.tuning.seams import TunedModel
from edge_contracts.errors import ContractError

MAX_WINDOW_MS = 16.0


class Server(Protocol):
    """What is used of agent.serving.process.ServerProcess."""

    def load(self, model: ServedModel) -> Loaded:
        """Raises LoadFailed, ServingError."""

    def unload(self, name: str) -> None:
        """Raises ServingError."""

    def snapshot(self) -> ServerState:
        """Raises ServingError."""


@dataclass
class _Served:
    """``model``: as the update machine gave it."""

    model: ServedModel
    home: ModelTuning
    current: ModelTuning
    knobs: frozenset[str]
    max_window_ms: float


class TunedServer:
    """Thread-safe. An agent.tuning.seams.TunedServing. ``pin``: keep a process's threads on these CPUs."""

    def __init__(
        self, server: Server, cpus: Iterable[int], pin: Callable[[int, frozenset[int]], None] | None = None
    ) -> None:  # fmt: skip
        self._server = server
        self._cpus = frozenset(cpus)
        self._pin = pin or pin_threads
        self._lock = threading.RLock()
        self._served: dict[str, _Served] = {}
        self._pinned: dict[int, frozenset[int]] = {}

    def load(self, model: ServedModel) -> Loaded:
        """As the server's: this is what selection chose."""
        with self._lock:
            loaded = self._server.load(model)
            runtime, target, batchable = _facts(model)
            knobs = KNOBS_OF_RUNTIME.get(runtime, frozenset({THREADS} if THREADS in model.options else ()))
            knobs = (knobs if target == "cpu" else frozenset()) | ({BATCH_WINDOW} if batchable else set())
            window_ms = None if model.batching is None else model.batching.max_delay_ms
            home = from_options(model.options, window_ms, len(self._cpus))
            self._served[model.name] = _Served(model, home, home, knobs, MAX_WINDOW_MS if batchable else 0.0)
            self._pin_all()
            return loaded

    def unload(self, name: str) -> None:
        """As the server's."""
        with self._lock:
            self._served.pop(name, None)
            self._server.unload(name)

    def served(self, name: str) -> ServedModel | None:
        """The model of that name as the update machine gave it."""
        with self._lock:
            found = self._served.get(name)
            return None if found is None else found.model

    def models(self) -> list[TunedModel]:
        """Engines that were restarted since are pinned again."""
        with self._lock:
            self._pin_all()
            # All models of an engine share its threads' CPUs, so that only one alone can be pinned.
            pinning = frozenset({CPUS} if len(self._served) == 1 and len(self._cpus) > 1 else ())
            return [
                TunedModel(name, one.model.digest, one.home, one.current,
                           one.knobs | (pinning if THREADS in one.knobs else frozenset()), one.max_window_ms)
                for name, one in self._served.items()
            ]  # fmt: skip

    def apply(self, name: str, digest: str, tuning: ModelTuning) -> None:
        """Raises LoadFailed; also when that bundle is not the one that serves by now."""
        with self._lock:
            served = self._served.get(name)
            if served is None or served.model.digest != digest:
                raise LoadFailed(name, "another bundle serves by now")
            before = served.current
            served.current = tuning
            self._pin_all()
            if replace(before, cpus=None) == replace(tuning, cpus=None):
                return
            try:
                self._server.load(_with(served, tuning))
            except ServingError:
                served.current = before
                self._pin_all()
                raise

    def queued(self) -> dict[str, int]:
        """Requests that wait, by model: those given to the engine ahead of the one that runs wait too."""
        try:
            state = self._server.snapshot()
        except ServingError:
            return {}
        return {model.name: model.queued + max(0, model.in_flight - 1) for model in state.models}

    def _pin_all(self) -> None:
        """Every engine's threads where they belong; one pin for all, so more than one model are never pinned."""
        alone = next(iter(self._served.values())) if len(self._served) == 1 else None
        if alone is None:
            for served in self._served.values():
                served.current = replace(served.current, cpus=None)
        wanted = alone.current.cpus if alone is not None and alone.current.cpus else self._cpus
        if wanted == self._cpus and all(cpus == self._cpus for cpus in self._pinned.values()):
            self._pinned.clear()
            return
        with contextlib.suppress(ServingError):
            pids = self._server.snapshot().engine_pids
            self._pinned = {pid: cpus for pid, cpus in self._pinned.items() if pid in pids}
            for pid in pids:
                if self._pinned.get(pid, self._cpus) != wanted:
                    self._pin(pid, wanted)
                    self._pinned[pid] = wanted


def pin_threads(pid: int, cpus: frozenset[int]) -> None:
    """All threads that the process has; those it makes later inherit it. One that has just ended is no matter."""
    try:
        threads = [int(entry.name) for entry in os.scandir(f"/proc/{pid}/task")]
    except OSError:
        return
    for thread in threads:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, cpus)


def _facts(model: ServedModel) -> tuple[str, str, bool]:
    """Runtime, target, and whether requests may be run together. A folder that cannot be read is not tuned."""
    try:
        bundle = open_bundle_folder(Path(model.folder)).bundle
    except ContractError:
        return "", "", False
    variant = bundle.variant(model.variant)
    if variant is None:
        return "", "", False
    return variant.spec.runtime, variant.spec.target, batch_dimension(bundle.spec.signature) is not None


def _with(served: _Served, tuning: ModelTuning) -> ServedModel:
    changes: dict[str, Any] = {"options": to_options(tuning, served.model.options, served.knobs)}
    if BATCH_WINDOW in served.knobs and tuning.batch_window_ms is not None:
        batching = served.model.batching or Batching()
        changes["batching"] = msgspec.structs.replace(batching, max_delay_ms=tuning.batch_window_ms)
    return msgspec.structs.replace(served.model, **changes)
