"""Who this device is in its fleet: DATA/identity.json, mode 0600, written by enrolment."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from agent.config import LinkConfig
from agent.disk import PRIVATE, Disk
from agent.errors import ConfigurationError
from agent.fleet_link.link import Account
from edge_contracts.enrolment import MqttEndpoint

FILE_NAME = "identity.json"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """``password`` is never shown: no repr, no log, no argument."""

    device: str
    site: str
    password: str
    server: str
    mqtt: MqttEndpoint

    def __repr__(self) -> str:
        return f"Identity({self.site}/{self.device} at {self.server})"

    @property
    def account(self) -> Account:
        """For the broker."""
        return Account(self.site, self.device, self.password)

    def broker_addresses(self, config: LinkConfig) -> list[tuple[str, int]]:
        """Configured hosts, else the one told at enrolment; its host defaults to the server's."""
        told = self.mqtt.host or urlsplit(self.server).hostname or "127.0.0.1"
        if not config.hosts:
            return [(told, self.mqtt.port)]
        return [_host_and_port(text, self.mqtt.port) for text in config.hosts]


def load_identity(data_dir: Path) -> Identity | None:
    """None when the device has not been enrolled. Raises ConfigurationError for a file that is not usable."""
    path = data_dir / FILE_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Identity)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), f"is damaged ({error}): enrol this device again") from error


def save_identity(data_dir: Path, identity: Identity, disk: Disk) -> None:
    """Durable and private. Raises OSError."""
    disk.replace(data_dir / FILE_NAME, msgspec.json.format(msgspec.json.encode(identity)), PRIVATE)


def _host_and_port(text: str, default_port: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), default_port
    if not port.isdigit():
        raise ConfigurationError("link.hosts", f"{text!r} is not HOST or HOST:PORT")
    return host.strip("[]"), int(port)
