"""Which devices a rollout is for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec


class Targetable(Protocol):
    """What targeting looks at."""

    @property
    def id(self) -> str: ...
    @property
    def site(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


class Selector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All conditions must hold; the empty selector means every device. ``devices``: ids; ``labels``: equal values."""

    devices: list[str] | None = None
    site: str | None = None
    labels: dict[str, str] = {}


def matches(selector: Selector, device: Targetable) -> bool:
    """Whether the device is meant."""
    if selector.devices is not None and device.id not in selector.devices:
        return False
    if selector.site is not None and device.site != selector.site:
        return False
    return all(device.labels.get(name) == value for name, value in selector.labels.items())


def select(selector: Selector, devices: Iterable[Targetable]) -> list[str]:
    """Ids of the devices meant: in the order of ``selector.devices`` (so a canary can be named), else by id."""
    found = sorted(device.id for device in devices if matches(selector, device))
    if selector.devices is None:
        return found
    place = {device: position for position, device in enumerate(selector.devices)}
    return sorted(found, key=lambda device: place[device])
