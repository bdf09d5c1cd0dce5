"""The Serving effect over the server process: switch, remove, and watch a bundle that serves on probation."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from agent.clock import Clock
from agent.errors import UpdateInterrupted
from agent.serving.control import Batching, EngineEvent, Loaded, ServedModel
from agent.update.effects import Interrupt, Placed, Watched
from agent.update.ledger import Ledger

LOOK_EVERY_S = 1.0
MIN_REQUESTS = 20
"""Fewer requests than this in a soak say nothing about a percentile."""
FAULTS = frozenset({"engine.crashed", "model.failed", "request.refused", "server.crashed"})


class Server(Protocol):
    """What is used of agent.serving.process.ServerProcess."""

    def load(self, model: ServedModel) -> Loaded:
        """Raises LoadFailed, ServingError."""

    def unload(self, name: str) -> None:
        """Raises ServingError."""


class LiveServing:
    """``on_event`` is the server's event callback. ``batching``: how models begin to be served; None: one by one."""

    def __init__(self, server: Server, ledger: Ledger, clock: Clock, batching: Batching | None = None) -> None:
        self._server = server
        self._ledger = ledger
        self._clock = clock
        self._batching = batching
        self._news = threading.Event()
        self._faults: deque[EngineEvent] = deque(maxlen=100)

    def on_event(self, event: EngineEvent) -> None:
        """From the server's own thread."""
        if event.kind in FAULTS:
            self._faults.append(event)
            self._news.set()

    def switch_to(self, placed: Placed) -> str | None:
        loaded = self._server.load(
            ServedModel(
                name=placed.name, version=placed.version, digest=placed.digest, folder=str(placed.folder.folder),
                variant=placed.variant, options=dict(placed.options), signed=placed.signed, evidence=placed.evidence,
                batching=self._batching,
            )
        )  # fmt: skip
        return loaded.provider

    def remove(self, name: str) -> None:
        self._server.unload(name)

    def watch(self, placed: Placed, seconds: float, interrupt: Interrupt) -> Watched:
        ends = self._clock.monotonic() + seconds
        self._faults.clear()
        self._ledger.begin_soak(placed.digest)
        try:
            while (left_s := ends - self._clock.monotonic()) > 0:
                if interrupt():
                    raise UpdateInterrupted("stopped in the soak")
                fault = self._fault_of(placed)
                if fault is not None:
                    return Watched(fault.text, "crash")
                self._news.clear()
                self._clock.wait(self._news, min(LOOK_EVERY_S, left_s))
        finally:
            sketch = self._ledger.end_soak(placed.digest)
        p95_us = sketch.quantile_us(0.95)
        slo_ms = placed.slo_p95_ms
        if slo_ms is not None and p95_us is not None and sketch.count >= MIN_REQUESTS and p95_us / 1000 > slo_ms:
            return Watched(f"p95 {p95_us / 1000:.2f} ms over the objective of {slo_ms:g} ms", "slower")
        return Watched()

    def _fault_of(self, placed: Placed) -> EngineEvent | None:
        return next(
            (event for event in list(self._faults) if event.model in (None, placed.name)
             and event.version in (None, placed.version)), None,
        )  # fmt: skip
