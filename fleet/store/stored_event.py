"""A device's event as it is kept: with the time at which the server took it, since devices' clocks can be far off."""

from __future__ import annotations

from fleet.domain.history import DeviceEvent


class StoredEvent(DeviceEvent, frozen=True, kw_only=True):
    """``received_ms`` is by the server's clock; ``at_ms`` is what the device said."""

    received_ms: int = 0
