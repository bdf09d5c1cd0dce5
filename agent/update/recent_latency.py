"""What the live engine measured in the last hour, by bundle: where memory has no room for a second copy of what serves,
this is what a new bundle is compared with.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from edge_contracts.latency import LatencySketch, merged
from edge_contracts.messages import StageLatency

SPAN_S = 3600.0
PART_S = 300.0
STAGE = "infer"
"""What a trial times as well: the runtime with the conversions around it, no waiting and no parsing."""


@dataclass
class _Part:
    began_s: float
    sketch: LatencySketch = field(default_factory=LatencySketch)


class RecentLatency:
    """Thread-safe. Kept in parts of PART_S, so that memory does not grow with requests."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._parts: dict[str, tuple[str, deque[_Part]]] = {}

    def add(self, name: str, latency: StageLatency) -> None:
        """One span of what serves; another bundle under that name begins anew."""
        data = latency.stages.get(STAGE)
        if data is None:
            return
        now_s = self._monotonic()
        with self._lock:
            digest, parts = self._parts.get(name, ("", deque()))
            if digest != latency.digest:
                parts = deque()
            if not parts or now_s - parts[-1].began_s >= PART_S:
                parts.append(_Part(now_s))
            parts[-1].sketch.merge(LatencySketch.from_data(data))
            self._parts[name] = (latency.digest, _last_hour(parts, now_s))

    def of(self, name: str, digest: str) -> LatencySketch | None:
        """The last hour of that bundle; None when it has not served in it."""
        with self._lock:
            known, parts = self._parts.get(name, ("", deque()))
            fresh = _last_hour(parts, self._monotonic()) if known == digest else deque()
            return merged(part.sketch for part in fresh) if fresh else None


def _last_hour(parts: deque[_Part], now_s: float) -> deque[_Part]:
    return deque(part for part in parts if now_s - part.began_s < SPAN_S)
