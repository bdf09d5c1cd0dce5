"""A broker that runs as a supervised child: what NATS and mosquitto have in common.

How the accounts get in: the configuration files are written anew, the child is told to reload (SIGHUP), and a probe
account whose password is new in every writing is tried until the broker accepts it. So the end of a reload is seen and
not guessed, and a start is ready when a login works.
"""

from __future__ import annotations

import logging
import secrets
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleet.broker.broker import BrokerAddress, DeviceAccount, ServerCredentials, without_duplicates
from fleet.broker.port import free_port
from fleet.broker.private_file import write_private
from fleet.broker.probe import Answer, ask
from fleet.broker.supervised_child import SupervisedChild
from fleet.broker.verifiers import SALT_BYTES, Verifiers, make_verifiers
from fleet.errors import AccountsNotLoaded, BrokerNotStarted, BrokerPortInUse, BrokerStartFailed

_log = logging.getLogger(__name__)

# "@" cannot stand in a device's name, so no device can be called like these.
SERVER_USER = "@server"
PROBE_USER = "@probe"
_PROBE_CLIENT_ID = "server-probe"
_PROBE_TIMEOUT_S = 2.0
_PROBE_EVERY_S = 0.05
_RELOAD_AGAIN_AFTER_S = 1.0
_PASSWORD_BYTES = 24


@dataclass(frozen=True)
class Login:
    """A login of the server itself."""

    username: str
    verifiers: Verifiers


@dataclass(frozen=True)
class Settings:
    """All that a broker's files are made of. ``folder`` is absolute, exists and is the broker's alone."""

    folder: Path
    address: BrokerAddress
    server: Login
    probe: Login
    accounts: tuple[DeviceAccount, ...]


class Dialect(Protocol):
    """What differs between broker programs. ``name`` stands in messages."""

    name: str

    def find_binary(self) -> Path:
        """Absolute path of the program. Raises BrokerBinaryMissing."""

    def files(self, settings: Settings) -> dict[str, str]:
        """Pure: name in ``settings.folder`` -> text, in the order in which they are written.

        The file that lets the probe in comes last, so that the probe's success proves all files.
        """

    def argv(self, binary: Path, folder: Path) -> list[str]:
        """The command line, free of secrets; the program must stay in the foreground and keep its user."""


@dataclass(frozen=True)
class Limits:
    """How long to wait for what."""

    start_s: float = 20.0
    reload_s: float = 10.0
    port_grace_s: float = 2.0
    stop_grace_s: float = 10.0


class ChildBroker:
    """Driver of the Broker seam. ``data`` is the folder it may fill; it is made at start with mode 0700."""

    def __init__(
        self,
        dialect: Dialect,
        data: Path,
        address: BrokerAddress,
        *,
        limits: Limits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._dialect = dialect
        self._folder = data.absolute()
        self._address = address
        self._limits = limits or Limits()
        self._monotonic = monotonic
        self._sleep = sleep
        self._random_bytes = random_bytes
        self._accounts: tuple[DeviceAccount, ...] = ()
        self._child: SupervisedChild | None = None
        self._credentials: ServerCredentials | None = None
        self._turn = threading.Lock()

    def start(self) -> None:
        with self._turn:
            binary = self._dialect.find_binary()
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            host = self._address.host
            port = free_port(self._dialect.name, host, self._address.port, grace_s=self._limits.port_grace_s)
            self._address = BrokerAddress(host, port, self._address.tls)
            self._credentials = ServerCredentials(SERVER_USER, self._new_password(), self._client_id())
            probe_password = self._write_files(self._credentials, self._accounts)
            child = SupervisedChild(
                self._dialect.name, self._dialect.argv(binary, self._folder), monotonic=self._monotonic
            )
            child.start()
            try:
                self._await_ready(child, probe_password)
            except BaseException:  # Ctrl-C while waiting leaves nothing behind either
                child.stop(self._limits.stop_grace_s)
                raise
            child.confirm()
            self._child = child

    def stop(self) -> None:
        with self._turn:
            child, self._child = self._child, None
            if child is not None:
                child.stop(self._limits.stop_grace_s)

    @property
    def address(self) -> BrokerAddress:
        if self._address.port == 0:
            raise BrokerNotStarted("port")
        return self._address

    @property
    def server_credentials(self) -> ServerCredentials:
        if self._credentials is None:
            raise BrokerNotStarted("server credentials")
        return self._credentials

    @property
    def child_pid(self) -> int | None:
        """Process id of the running child, for status and diagnosis."""
        child = self._child
        return None if child is None else child.pid

    def alive(self) -> bool:
        return self.child_pid is not None

    def set_accounts(self, accounts: Sequence[DeviceAccount]) -> None:
        wanted = without_duplicates(accounts)
        with self._turn:
            before, self._accounts = self._accounts, wanted
            if self._child is None:
                return
            kept = _without_changed(before, wanted)
            if kept != wanted:
                # NATS leaves a connection open whose user has got another password; one that is gone it closes.
                self._load(self._child, kept)
            self._load(self._child, wanted)

    def _await_ready(self, child: SupervisedChild, probe_password: str) -> None:
        deadline_s = self._monotonic() + self._limits.start_s
        while self._ask(probe_password) is not Answer.ACCEPTED:
            if child.given_up:
                raise self._explain(child.last_lines())
            if self._monotonic() >= deadline_s:
                raise BrokerStartFailed(
                    self._dialect.name,
                    f"no login was accepted within {self._limits.start_s:g} s",
                    f"see its last words: {_last_words(child.last_lines())}",
                )
            self._sleep(_PROBE_EVERY_S)

    def _load(self, child: SupervisedChild, accounts: tuple[DeviceAccount, ...]) -> None:
        try:
            self._reload(child, self._write_files(self.server_credentials, accounts))
        except AccountsNotLoaded:
            self._write_files(self.server_credentials, self._accounts)
            raise

    def _reload(self, child: SupervisedChild, probe_password: str) -> None:
        """SIGHUP only to a child that answers: one that is just starting reads the new files anyway, and would die."""
        began_s = self._monotonic()
        asked_s: float | None = None
        while True:
            answer = self._ask(probe_password)
            if answer is Answer.ACCEPTED:
                return
            now_s = self._monotonic()
            if now_s - began_s >= self._limits.reload_s:
                raise AccountsNotLoaded(self._dialect.name, self._limits.reload_s)
            if answer is Answer.REFUSED and (asked_s is None or now_s - asked_s >= _RELOAD_AGAIN_AFTER_S):
                child.send(signal.SIGHUP)
                asked_s = now_s
            self._sleep(_PROBE_EVERY_S)

    def _ask(self, probe_password: str) -> Answer:
        return ask(self._address, _PROBE_CLIENT_ID, PROBE_USER, probe_password, _PROBE_TIMEOUT_S)

    def _write_files(self, server: ServerCredentials, accounts: tuple[DeviceAccount, ...]) -> str:
        """Writes the files for the accounts and returns the probe's password, which is a new one each time."""
        probe_password = self._new_password()
        settings = Settings(
            folder=self._folder,
            address=self._address,
            server=Login(server.username, self._verifiers(server.password)),
            probe=Login(PROBE_USER, self._verifiers(probe_password)),
            accounts=accounts,
        )
        for name, text in self._dialect.files(settings).items():
            write_private(self._folder / name, text)
        return probe_password

    def _verifiers(self, password: str) -> Verifiers:
        return make_verifiers(password, salt=self._random_bytes(SALT_BYTES))

    def _new_password(self) -> str:
        return self._random_bytes(_PASSWORD_BYTES).hex()

    def _client_id(self) -> str:
        """Kept in the data folder, or the broker would queue for a client that never comes back; not to be guessed,
        since a broker lets a newcomer with the same client id take a connection over."""
        path = self._folder / "server-client-id"
        if not path.exists():
            write_private(path, f"server-{self._random_bytes(12).hex()}")
        return path.read_text(encoding="utf-8").strip()

    def _explain(self, lines: tuple[str, ...]) -> BrokerStartFailed:
        if any("address already in use" in line.lower() for line in lines):
            return BrokerPortInUse(self._dialect.name, self._address.host, self._address.port)
        return BrokerStartFailed(
            self._dialect.name, f"it ended at once: {_last_words(lines)}", f"its files are in {self._folder}"
        )


def _without_changed(before: tuple[DeviceAccount, ...], wanted: tuple[DeviceAccount, ...]) -> tuple[DeviceAccount, ...]:
    """The wanted accounts less those that had the same name and another password or site before."""
    known = {account.username: account for account in before}
    return tuple(account for account in wanted if known.get(account.username, account) == account)


def _last_words(lines: tuple[str, ...]) -> str:
    return " | ".join(line.strip() for line in lines[-3:]) or "(it said nothing)"
