"""What the server has published and the broker has not confirmed yet, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleet.broker.broker import MAX_PAYLOAD_BYTES
from fleet.broker.topic_filter import is_topic
from fleet.errors import PublishRefused


@dataclass(frozen=True)
class Outgoing:
    """One message that may be published: the topic has no wildcard, the payload fits. Raises PublishRefused.

    The size matters here and not only at the broker: one that closes the connection on a message too large would be
    sent the same message at every reconnect.
    """

    topic: str
    payload: bytes = field(repr=False)
    retain: bool

    def __post_init__(self) -> None:
        if not is_topic(self.topic):
            raise PublishRefused(self.topic, "a topic to publish on is not empty and holds neither + nor #")
        if len(self.payload) > MAX_PAYLOAD_BYTES:
            raise PublishRefused(
                self.topic, f"{len(self.payload)} bytes are over the {MAX_PAYLOAD_BYTES} that every broker takes"
            )


class Outbox:
    """Pure bookkeeping, not locked. Of the retained messages of one topic only the last is kept, at the last's place.

    >>> box = Outbox(max_messages=10)
    >>> first, second = box.add(Outgoing("t", b"1", True)), box.add(Outgoing("t", b"2", True))
    >>> box.confirm(first)
    >>> [message.payload for _, message in box.waiting()]
    [b'2']
    """

    def __init__(self, max_messages: int) -> None:
        self._max_messages = max_messages
        self._waiting: dict[int, Outgoing] = {}
        self._last_retained: dict[str, int] = {}
        self._next_ticket = 0

    def add(self, message: Outgoing) -> int:
        """A ticket to confirm() with. Raises PublishRefused when too many messages wait."""
        if message.retain and message.topic in self._last_retained:
            self.confirm(self._last_retained[message.topic])
        if len(self._waiting) >= self._max_messages:
            raise PublishRefused(message.topic, f"{len(self._waiting)} messages already wait for the broker")
        ticket = self._next_ticket
        self._next_ticket += 1
        self._waiting[ticket] = message
        if message.retain:
            self._last_retained[message.topic] = ticket
        return ticket

    def confirm(self, ticket: int) -> None:
        """The message has arrived. A ticket that is unknown, confirmed or replaced changes nothing."""
        message = self._waiting.pop(ticket, None)
        if message is not None and self._last_retained.get(message.topic) == ticket:
            del self._last_retained[message.topic]

    def waiting(self) -> list[tuple[int, Outgoing]]:
        """What to send after a reconnect, oldest first."""
        return list(self._waiting.items())

    def __len__(self) -> int:
        return len(self._waiting)
