"""What devices told over time: latency by the minute, and events."""

from __future__ import annotations

import msgspec

from edge_contracts.latency import SketchData


class LatencyMinute(msgspec.Struct, frozen=True, kw_only=True):
    """The merged sketch of one model on one device in the minute that begins at ``minute_ms``, for one stage."""

    device: str
    model: str
    digest: str
    stage: str
    minute_ms: int
    version: str
    sketch: SketchData
    requests: int = 0
    errors: int = 0


class DeviceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something a device found worth telling; ``id`` is unique per device."""

    device: str
    id: str
    at_ms: int
    kind: str
    text: str
    model: str | None = None
    deployment: str | None = None
    facts: dict[str, str | int | float | bool | None] = {}
