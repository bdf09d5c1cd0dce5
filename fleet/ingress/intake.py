"""The writer thread: takes what came over MQTT into the store in batches and acknowledges after the commit.

A kill loses nothing: what was not acknowledged, the broker delivers again, and taking it in twice changes nothing. A
broker holds back after about 1,000 unacknowledged messages, so the queue stays short when the store is slow.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edge_contracts.errors import ContractError
from fleet.broker.link import Incoming
from fleet.errors import RecordRefused, StoreError
from fleet.ingress.decoding import decode
from fleet.services.clock import NowMs
from fleet.services.inventory import Effects, Received
from fleet.supervised_thread import SupervisedThread

_log = logging.getLogger(__name__)
BATCH = 500
GATHER_S = 0.05
RETRY_S = 1.0
QUEUE = 20_000


@dataclass
class Counters:
    """Since the start. malformed: dropped for their bytes; strangers: of unknown devices; inactive: of devices that
    are quarantined or decommissioned; poison: no store takes it; overflow: not taken from the broker yet, for want of
    room.
    """

    stored: int = 0
    malformed: int = 0
    strangers: int = 0
    inactive: int = 0
    poison: int = 0
    overflow: int = 0
    batches: int = field(default=0)


class Intake:
    """``put`` is the link's callback. ``after`` is told what a batch came to, after its commit."""

    def __init__(
        self,
        ingest: Callable[[Sequence[Received]], Effects],
        after: Callable[[Effects], None],
        now_ms: NowMs,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ingest = ingest
        self._after = after
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._queue: queue.Queue[tuple[Incoming, int]] = queue.Queue(QUEUE)
        self._in_hand: list[tuple[Incoming, Received]] = []
        self._failing = False
        self.thread = SupervisedThread("ingest", "devices' messages", lambda: self.take_batch(0.5))
        self.counters = Counters()

    @property
    def failure(self) -> str | None:
        """One line while the batch in hand cannot be taken in."""
        return self.thread.failure

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Ends after the batch in hand; the rest is unacknowledged and comes again."""
        self.thread.stop()

    def put(self, incoming: Incoming) -> None:
        """Returns at once. What does not fit in the queue is not acknowledged, so the broker keeps it."""
        try:
            self._queue.put_nowait((incoming, self._now_ms()))
        except queue.Full:
            self.counters.overflow += 1

    def take_batch(self, wait_s: float) -> int:
        """Waits up to ``wait_s`` for a first message, gathers, stores, acknowledges; how many messages that were.

        After a failure that nobody foresaw the same batch is tried again, so that none of it is lost to this session.
        """
        count = len(self._in_hand)
        if not self._in_hand:
            gathered = self._gather(wait_s)
            count = len(gathered)
            self._in_hand = [
                (incoming, received) for incoming, at_ms in gathered if (received := self._decoded(incoming, at_ms))
            ]
        if self._commit([received for _, received in self._in_hand]):
            for incoming, _ in self._in_hand:
                incoming.ack()
        self._in_hand = []
        return count

    def _gather(self, wait_s: float) -> list[tuple[Incoming, int]]:
        try:
            gathered = [self._queue.get(timeout=wait_s) if wait_s > 0 else self._queue.get_nowait()]
        except queue.Empty:
            return []
        until_s = self._monotonic() + (GATHER_S if wait_s > 0 else 0)
        while len(gathered) < BATCH:
            left_s = until_s - self._monotonic()
            try:
                gathered.append(self._queue.get(timeout=left_s) if left_s > 0 else self._queue.get_nowait())
            except queue.Empty:
                break
        return gathered

    def _decoded(self, incoming: Incoming, at_ms: int) -> Received | None:
        try:
            return decode(incoming.topic, incoming.payload, retained=incoming.retained, at_ms=at_ms)
        except ContractError as error:
            self.counters.malformed += 1
            _log.info("dropped a message: %s", error)
            incoming.ack()
            return None

    def _commit(self, batch: Sequence[Received]) -> bool:
        """True once the batch is in the store; False when we are stopped before it is."""
        while batch:
            try:
                self._apply(batch)
                break
            except (RecordRefused, ValueError, TypeError, LookupError) as error:
                # A message that decodes and that no database takes (a huge number, a NUL): find it, drop it, go on.
                self._one_by_one(batch, error)
                break
            except StoreError as error:
                if not self._failing:
                    _log.warning("devices' messages wait with the broker: %s", error)
                self._failing = True
                if self.thread.stopping.wait(RETRY_S):
                    return False
        return True

    def _one_by_one(self, batch: Sequence[Received], error: Exception) -> None:
        if len(batch) == 1:
            self.counters.poison += 1
            _log.warning("dropped a %s of %s: %s", batch[0].topic.kind, batch[0].topic.device, error)
            return
        middle = len(batch) // 2
        self._commit(batch[:middle])
        self._commit(batch[middle:])

    def _apply(self, batch: Sequence[Received]) -> None:
        effects = self._ingest(batch)
        self.counters.batches += 1
        self.counters.stored += len(batch) - effects.strangers - effects.inactive
        self.counters.strangers += effects.strangers
        self.counters.inactive += effects.inactive
        if self._failing:
            _log.warning("devices' messages are stored again: recovered")
        self._failing = False
        self._after(effects)
