"""Every MQTT topic, built and parsed here only.

    mindedge/v1/{site}/{device}/up/{birth|status|reported|telemetry|event}
    mindedge/v1/{site}/{device}/down/{desired|command/{id}}

>>> up("lyon", "cam-1", "birth")
'mindedge/v1/lyon/cam-1/up/birth'
>>> parse("mindedge/v1/lyon/cam-1/down/command/42")
Topic(site='lyon', device='cam-1', direction='down', kind='command', command_id='42')

Levels hold only ``[A-Za-z0-9_-]`` so that they are single tokens on NATS too, where a dot divides levels.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_contracts.errors import MalformedMessage, MalformedTopic
from edge_contracts.names import device_name

PREFIX = "mindedge/v1"
UP_KINDS = ("birth", "status", "reported", "telemetry", "event")
RETAINED_KINDS = ("birth", "status", "reported", "desired")
ALL_UP = f"{PREFIX}/+/+/up/#"


@dataclass(frozen=True)
class Topic:
    """A parsed topic. ``direction`` is "up" or "down"; ``command_id`` is set exactly when ``kind`` is "command"."""

    site: str
    device: str
    direction: str
    kind: str
    command_id: str | None = None


def up(site: str, device: str, kind: str) -> str:
    """Topic a device publishes on. Raises MalformedTopic for an unknown kind or a name that cannot stand in a topic."""
    if kind not in UP_KINDS:
        raise MalformedTopic(kind, f"not one of {', '.join(UP_KINDS)}")
    return f"{_device_prefix(site, device)}/up/{kind}"


def desired(site: str, device: str) -> str:
    """Topic of a device's whole wish (retained)."""
    return f"{_device_prefix(site, device)}/down/desired"


def command(site: str, device: str, command_id: str) -> str:
    """Topic of one command (never retained)."""
    return f"{_device_prefix(site, device)}/down/command/{_level(command_id)}"


def device_up_filter(site: str, device: str) -> str:
    """All that a device may write."""
    return f"{_device_prefix(site, device)}/up/#"


def device_down_filter(site: str, device: str) -> str:
    """All that a device may read."""
    return f"{_device_prefix(site, device)}/down/#"


def parse(topic: str) -> Topic:
    """The inverse of the builders above. Raises MalformedTopic."""
    levels = topic.split("/")
    if len(levels) < 6 or "/".join(levels[:2]) != PREFIX:
        raise MalformedTopic(topic, f"not {PREFIX}/SITE/DEVICE/(up|down)/KIND")
    site, device, direction, kind, *rest = levels[2:]
    for level in (site, device, *rest):
        _level(level)
    if direction == "up" and kind in UP_KINDS and not rest:
        return Topic(site, device, direction, kind)
    if direction == "down" and kind == "desired" and not rest:
        return Topic(site, device, direction, kind)
    if direction == "down" and kind == "command" and len(rest) == 1:
        return Topic(site, device, direction, kind, rest[0])
    raise MalformedTopic(topic, "unknown direction or kind")


def _device_prefix(site: str, device: str) -> str:
    return f"{PREFIX}/{_level(site)}/{_level(device)}"


def _level(text: str) -> str:
    try:
        return device_name(text, "topic level")
    except MalformedMessage as error:
        raise MalformedTopic(text, error.reason) from error
