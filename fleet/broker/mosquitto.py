"""mosquitto 2 as the broker: smaller and faster than NATS for one machine, installed by the system (apt, dnf).

What its configuration has to say (mosquitto 2.0.11, measured):

- SIGHUP reads the password and ACL files again and closes the connections of users that are gone or changed, and no
  others; neither a restart nor the dynamic security plugin is needed.
- The site stands in the topic, so the ACL has lines for each user and cannot be a ``pattern`` with %u.
- ``user root`` when started as root: mosquitto would else change to its own user, and a change of user ends the binding
  to the parent's life. Anyone else it runs as stays who it is.
- ``use_username_as_clientid``: nobody can take over another's connection by using its client id.
- A killed broker loses what came since the last autosave, up to 10 s of queued and retained messages
  (autosave_on_changes costs most of the throughput). Nothing depends on a broker's memory; NATS loses nothing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fleet.broker.broker import SERVER_FILTER, BrokerAddress
from fleet.broker.child_broker import ChildBroker, Limits, Settings
from fleet.errors import BrokerBinaryMissing, BrokerStartFailed

_CONFIG = "mosquitto.conf"
_PASSWORDS = "passwords"
_ACL = "acl"
_WAY_OUT = "install it (Debian: apt install mosquitto) or use the embedded broker"
_SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"  # where Debian puts it, outside an ordinary user's PATH


class MosquittoDialect:
    """See ``child_broker.Dialect``. ``is_root`` says whether the server itself runs as root (default: look)."""

    name = "mosquitto"

    def __init__(self, *, is_root: bool | None = None) -> None:
        self._is_root = is_root

    def find_binary(self) -> Path:
        found = shutil.which("mosquitto") or shutil.which("mosquitto", path=_SYSTEM_FOLDERS)
        if found is None:
            raise BrokerBinaryMissing(self.name, "mosquitto", _WAY_OUT)
        return Path(found).absolute()

    def files(self, settings: Settings) -> dict[str, str]:
        is_root = os.geteuid() == 0 if self._is_root is None else self._is_root
        return {
            _CONFIG: _config(settings, is_root=is_root),
            _ACL: _acl(settings),
            _PASSWORDS: _passwords(settings),
        }

    def argv(self, binary: Path, folder: Path) -> list[str]:
        return [str(binary), "-c", str(folder / _CONFIG)]


def mosquitto_broker(data: Path, address: BrokerAddress, *, limits: Limits | None = None) -> ChildBroker:
    """A Broker of the system's mosquitto."""
    return ChildBroker(MosquittoDialect(), data, address, limits=limits)


def _config(settings: Settings, *, is_root: bool) -> str:
    folder = str(settings.folder)
    if "\n" in folder:
        raise BrokerStartFailed("mosquitto", f"there is a line break in the folder {folder!r}", "choose another --data")
    lines = [
        "per_listener_settings false",
        *(["user root"] if is_root else []),
        "allow_anonymous false",
        f"password_file {folder}/{_PASSWORDS}",
        f"acl_file {folder}/{_ACL}",
        "persistence true",
        f"persistence_location {folder}/",
        "autosave_interval 10",
        "max_inflight_messages 1000",
        "max_queued_messages 10000",
        "message_size_limit 1048576",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
        f"listener {settings.address.port} {settings.address.host}",
        "use_username_as_clientid true",
    ]
    return "\n".join(lines) + "\n"


def _passwords(settings: Settings) -> str:
    lines = [f"{account.username}:{account.verifiers.mosquitto}" for account in settings.accounts]
    lines += [f"{login.username}:{login.verifiers.mosquitto}" for login in (settings.server, settings.probe)]
    return "\n".join(lines) + "\n"


def _acl(settings: Settings) -> str:
    lines = [f"user {settings.server.username}", f"topic readwrite {SERVER_FILTER}"]
    for account in settings.accounts:
        lines += [f"user {account.username}", f"topic write {account.writable}", f"topic read {account.readable}"]
    return "\n".join(lines) + "\n"
