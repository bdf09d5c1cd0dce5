"""Seam: the MQTT broker. Drivers: ``embedded.py`` (NATS, the default), ``mosquitto.py``, ``memory.py`` (in-process)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from edge_contracts import topics
from edge_contracts.errors import ContractError
from edge_contracts.names import device_name
from fleet.broker.verifiers import Verifiers
from fleet.errors import AccountRefused

MAX_PAYLOAD_BYTES = 1_000_000
SERVER_FILTER = f"{topics.PREFIX}/#"


@dataclass(frozen=True)
class BrokerAddress:
    """Where clients connect. As an argument to a driver, port 0 means: choose a free one at start and keep it."""

    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True)
class ServerCredentials:
    """The server's own login. ``client_id`` outlives restarts, so that the broker keeps what came meanwhile."""

    username: str
    password: str = field(repr=False)
    client_id: str


@dataclass(frozen=True)
class DeviceAccount:
    """One device's login; ``username`` is the device id and, by convention, its MQTT client id.

    It may write ``writable`` and read ``readable``, nothing else. Both names stand in configuration files and topics,
    so anything but 1 to 64 of ``A-Z a-z 0-9 _ -`` raises AccountRefused.
    """

    username: str
    site: str
    verifiers: Verifiers = field(repr=False)

    def __post_init__(self) -> None:
        try:
            device_name(self.username, "device")
            device_name(self.site, "site")
        except ContractError as error:
            raise AccountRefused(self.username, str(error)) from error

    @property
    def writable(self) -> str:
        return topics.device_up_filter(self.site, self.username)

    @property
    def readable(self) -> str:
        return topics.device_down_filter(self.site, self.username)


class Broker(Protocol):
    """An MQTT 3.1.1 broker (QoS <= 1) that knows the server and its devices, and denies everything else.

    Who may do what: the server's account reads and writes ``mindedge/v1/#``. A device's account writes its own
    ``up/#`` and reads its own ``down/#``; retained messages, wills and wildcard subscriptions give it nothing more.
    Brokers differ in how they deny (a refused subscription, silence, or a closed connection); a client may rely on
    none of these. Anonymous connections are refused.

    Lifetime: start() and stop() by one owner; a stopped broker may be started again. A driver that runs a child process
    owns it and the thread that watches it: a child that dies is started again on the same port with growing waits
    (clients reconnect by themselves, so nobody is told), it dies with this process however that ends, and its port is
    then free. Retained messages and the server's queue survive an orderly stop and start; a broker that is killed may
    lose the last seconds of them (NATS: nothing), so nothing may depend on them.

    Threads: every method may be called from any thread, one set_accounts() at a time takes effect.
    """

    def start(self) -> None:
        """Returns once the broker accepts connections with the accounts set so far.

        Raises BrokerStartFailed (BrokerPortInUse, BrokerBinaryMissing) with the way out; nothing is left running then.
        """

    def stop(self) -> None:
        """Ends the broker and returns when its port is free. Does nothing when it is not started."""

    @property
    def address(self) -> BrokerAddress:
        """Where clients connect. Raises BrokerNotStarted while a port is still to be chosen."""

    @property
    def server_credentials(self) -> ServerCredentials:
        """For one ServerLink. Raises BrokerNotStarted."""

    def set_accounts(self, accounts: Sequence[DeviceAccount]) -> None:
        """Replaces all device accounts.

        Returns once they are in force: a new account can connect, one that is gone or has another verifier is refused
        and its connection is closed, all others stay connected. Call it before start() as well, or devices that
        reconnect faster than their accounts come are refused. Before start() it only remembers them.

        Raises AccountRefused when a user name comes twice, AccountsNotLoaded when the broker does not take them over
        in time (they are written and load at its next start).
        """

    def alive(self) -> bool:
        """Whether the broker is running right now: False before start(), after stop() and while waiting to restart."""


def without_duplicates(accounts: Sequence[DeviceAccount]) -> tuple[DeviceAccount, ...]:
    """The accounts, or AccountRefused: one user name for two sites would open both sites' topics to each."""
    seen: set[str] = set()
    for account in accounts:
        if account.username in seen:
            raise AccountRefused(account.username, "comes twice; device ids are unique within a server")
        seen.add(account.username)
    return tuple(accounts)
