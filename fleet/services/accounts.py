"""Keeps the broker's accounts equal to the credentials in the store. Changes are gathered and loaded together."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

import msgspec

from fleet.broker.broker import DeviceAccount
from fleet.broker.verifiers import Verifiers
from fleet.domain.device import DeviceState
from fleet.store.unit_of_work import Store
from fleet.supervised_thread import SupervisedThread

_log = logging.getLogger(__name__)
GATHER_S = 0.2
WAIT_S = 10.0


class Accounts(Protocol):
    """What this room needs of the broker."""

    def set_accounts(self, accounts: list[DeviceAccount], /) -> None: ...


class AccountKeeper:
    """``load()`` once before the broker starts; then start(), and ``changed()`` after each commit that touches them."""

    def __init__(self, store: Store, broker: Accounts, *, gather_s: float = GATHER_S) -> None:
        self._store = store
        self._broker = broker
        self._gather_s = gather_s
        self._condition = threading.Condition()
        self._wanted = 0
        self._loaded = 0
        self.thread = SupervisedThread("accounts", "changed device accounts", self._step)

    @property
    def failure(self) -> str | None:
        """One line while changed accounts cannot be loaded."""
        return self.thread.failure

    def load(self) -> None:
        """Gives the broker the accounts of all active devices. Raises StoreError, BrokerError."""
        with self._store.read() as work:
            active = {
                d.id
                for d in work.devices.find(
                    {"state": DeviceState.ACTIVE}, without=("capabilities", "reported", "vitals", "choices")
                )
            }
            credentials = [c for c in work.credentials.find() if c.device in active]
        self._broker.set_accounts(
            [DeviceAccount(c.device, c.site, msgspec.json.decode(c.verifiers, type=Verifiers)) for c in credentials]
        )

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.thread.stopping.set()
        with self._condition:
            self._condition.notify_all()
        self.thread.stop()

    def changed(self, wait_s: float = WAIT_S) -> bool:
        """Asks for a load and waits for one that began after this call; False when it did not come in time."""
        with self._condition:
            self._wanted += 1
            mine = self._wanted
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._loaded >= mine or self.thread.stopping.is_set(), wait_s)
            in_force = self._loaded >= mine
        if not in_force:
            _log.warning("device accounts are not in force after %g s: they will be once the broker takes them", wait_s)
        return in_force

    def _step(self) -> None:
        """One load, when one is wanted; a load that failed is still wanted."""
        with self._condition:
            self._condition.wait_for(lambda: self._wanted > self._loaded or self.thread.stopping.is_set())
        if self.thread.stopping.wait(self._gather_s):
            return
        with self._condition:
            covered = self._wanted
        self.load()
        with self._condition:
            self._loaded = covered
            self._condition.notify_all()
