"""From a topic and bytes to a typed message. Whatever does not fit is refused here and goes no further. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from edge_contracts import messages, topics
from edge_contracts.errors import MalformedTopic
from edge_contracts.messages import Birth, Event, Reported, Status, Telemetry
from fleet.services.inventory import Message, Received

_DECODERS: Mapping[str, Callable[[bytes], Message]] = {
    "birth": partial(messages.decode, kind=Birth),
    "status": partial(messages.decode, kind=Status),
    "reported": partial(messages.decode, kind=Reported),
    "telemetry": partial(messages.decode, kind=Telemetry),
    "event": partial(messages.decode, kind=Event),
}


def decode(topic: str, payload: bytes, *, retained: bool, at_ms: int) -> Received:
    """Raises ContractError (MalformedTopic, MalformedMessage) whatever the bytes are."""
    parsed = topics.parse(topic)
    if parsed.direction != "up":
        raise MalformedTopic(topic, "not a device's own topic")
    return Received(parsed, _DECODERS[parsed.kind](payload), retained, at_ms)
