"""The server's configuration: one frozen tree, read once.

Sources, the later wins: the built-in defaults, the TOML file (``--config`` or MINDEDGE_CONFIG), the environment, flags.

    port = 8080                      MINDEDGE_FLEET_PORT=8080                --port 8080

The data folder is ``data_dir``, MINDEDGE_DATA or ``--data``. An unknown key or variable is an error that names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fleet.errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA_VARIABLE = "MINDEDGE_DATA"
CONFIG_VARIABLE = "MINDEDGE_CONFIG"
TOKEN_VARIABLE = "MINDEDGE_TOKEN"  # noqa: S105 - a variable's name
PREFIX = "MINDEDGE_FLEET_"

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class FleetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole tree. Port 0: choose a free one. ``database_url`` None: SQLite in the data folder."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: Port = 8080
    mqtt_port: Port = 1883
    broker: Literal["embedded", "mosquitto"] = "embedded"
    database_url: str | None = None


FLAGS = {"data": "data_dir", "host": "host", "port": "port", "mqtt_port": "mqtt_port", "broker": "broker",
         "database": "database_url"}  # fmt: skip
"""Attribute of the parsed command line -> key."""


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """/var/lib/mindedge/fleet for root, else ~/.local/share/mindedge/fleet."""
    if os.geteuid() == 0:
        return Path("/var/lib/mindedge/fleet")
    return Path(environ.get("HOME") or "~").expanduser() / ".local/share/mindedge/fleet"


def data_dir(args: object, environ: Mapping[str, str]) -> Path:
    """The data folder for commands that need no more than that."""
    return Path(getattr(args, "data", None) or environ.get(DATA_VARIABLE) or default_data_dir(environ)).expanduser()


def load_config(args: object, environ: Mapping[str, str]) -> FleetConfig:
    """Read all sources. ``args`` is the parsed command line. Raises ConfigurationError naming its place."""
    merged: dict[str, Any] = {"data_dir": str(default_data_dir(environ))}
    config_file = getattr(args, "config", None) or environ.get(CONFIG_VARIABLE)
    if config_file:
        merged.update(_checked(_read_toml(Path(config_file)), str(config_file)))
    if environ.get(DATA_VARIABLE):
        merged["data_dir"] = environ[DATA_VARIABLE]
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        merged.update(_checked({variable[len(PREFIX) :].lower(): environ[variable]}, variable))
    for flag, key in FLAGS.items():
        value = getattr(args, flag, None)
        if value is not None:
            merged.update(_checked({key: str(value)}, "--" + flag.replace("_", "-")))
    config = _convert(merged, "configuration")
    return msgspec.structs.replace(config, data_dir=config.data_dir.expanduser().absolute())


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        tree: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), f"is not TOML: {error}") from error
    return tree


def _checked(layer: dict[str, Any], where: str) -> dict[str, Any]:
    """``layer`` unchanged, if it alone is a valid part of the tree."""
    _convert({"data_dir": "/", **layer}, where)
    return layer


def _convert(tree: dict[str, Any], where: str) -> FleetConfig:
    try:
        return msgspec.convert(tree, FleetConfig, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise ConfigurationError(where, str(error)) from error


def _path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    raise ValueError("Expected a path")
