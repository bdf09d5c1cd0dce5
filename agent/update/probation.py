"""After the commit: what serves must stay as good as it was proven. Watches crashes, the backend in effect and the SLO.

Three crashes within an hour send the model back to the last good; a silent fall-back of the backend and a p95 over the
objective in three spans of telemetry in a row are told as regressions. Pure but for the lock; time is an argument.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from agent.serving.control import EngineEvent, ModelState
from agent.update.inbox import Worse
from agent.update.ledger import total_of
from agent.update.records import DeviceState
from edge_contracts.messages import StageLatency

MAX_CRASHES = 3
CRASH_WINDOW_S = 3600.0
BREACHES = 3
MIN_REQUESTS = 20


class Probation:
    """Thread-safe. ``submit`` takes the news; each regression is told once per committed bundle."""

    def __init__(
        self, state: Callable[[], DeviceState], submit: Callable[[Worse], None], monotonic: Callable[[], float]
    ) -> None:
        self._state = state
        self._submit = submit
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._crashes: dict[str, deque[float]] = {}
        self._breaches: dict[str, int] = {}
        self._told: set[tuple[str, str]] = set()

    def on_event(self, event: EngineEvent) -> None:
        """Something happened to the engine."""
        name = event.model
        if name is None or self._in_trial(name):
            return
        if event.kind == "model.failed":
            self._tell(name, "failed", event.text, go_back=True)
        elif event.kind == "engine.crashed":
            with self._lock:
                times = self._crashes.setdefault(name, deque(maxlen=MAX_CRASHES))
                times.append(self._monotonic())
                looping = len(times) == MAX_CRASHES and times[-1] - times[0] <= CRASH_WINDOW_S
                if looping:
                    times.clear()
            if looping:
                self._tell(name, "crashes", f"the engine crashed {MAX_CRASHES} times within an hour", go_back=True)

    def on_latency(self, name: str, latency: StageLatency) -> None:
        """One span of telemetry of what serves."""
        active = self._state().model(name).active
        if active is None or active.slo_p95_ms is None or active.digest != latency.digest or self._in_trial(name):
            return
        sketch = total_of(latency)
        p95_us = sketch.quantile_us(0.95)
        if p95_us is None or sketch.count < MIN_REQUESTS:
            return
        breached = p95_us / 1000 > active.slo_p95_ms
        with self._lock:
            self._breaches[name] = self._breaches.get(name, 0) + 1 if breached else 0
            too_often = self._breaches[name] >= BREACHES
        if too_often:
            text = (
                f"p95 {p95_us / 1000:.2f} ms over the objective of {active.slo_p95_ms:g} ms, {BREACHES} times in a row"
            )
            self._tell(name, "slo", text, go_back=False)

    def on_served(self, served: ModelState) -> None:
        """The backend in effect as the engine tells it now."""
        active = self._state().model(served.name).active
        if active is None or active.digest != served.digest or not served.ready:
            return
        if active.provider is not None and served.provider is not None and served.provider != active.provider:
            text = f"the backend fell back from {active.provider} to {served.provider}"
            self._tell(served.name, "fallback", text, go_back=False)

    def _in_trial(self, name: str) -> bool:
        deployment = self._state().model(name).deployment
        return deployment is not None and deployment.in_flight

    def _tell(self, name: str, kind: str, reason: str, *, go_back: bool) -> None:
        active = self._state().model(name).active
        if active is None:
            return
        mark = (f"{name} {active.deployment}", kind)
        with self._lock:
            if mark in self._told and not go_back:
                return
            self._told.add(mark)
        self._submit(Worse(name, reason, go_back))
