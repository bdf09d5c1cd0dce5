"""Which server a command talks to, and with which token."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from fleet import data_folder
from fleet.client import FleetClient
from fleet.config import DATA_VARIABLE, TOKEN_VARIABLE, data_dir
from fleet.errors import ConfigurationError

DEFAULT_SERVER = "http://127.0.0.1:8080"


def client(args: argparse.Namespace) -> FleetClient:
    """The client that the arguments and the environment name. Raises ConfigurationError when there is no token."""
    return FleetClient(server_url(args, os.environ), token(args, os.environ))


def server_url(args: argparse.Namespace, environ: Mapping[str, str]) -> str:
    """``--server``, else the server that runs on the data folder, else the default."""
    if args.server:
        if not args.server.startswith(("http://", "https://")):
            raise ConfigurationError("--server", f"{args.server!r} does not begin with http:// or https://")
        return str(args.server)
    running = data_folder.announced(data_dir(args, environ))
    return running.url if running is not None else DEFAULT_SERVER


def token(args: argparse.Namespace, environ: Mapping[str, str]) -> str:
    """``--token-file``, else the file of a folder that was named, else MINDEDGE_TOKEN, else the default folder's."""
    source: str | None = args.token_file
    if source is not None:
        return _usable(sys.stdin.readline(), "standard input") if source == "-" else _read(Path(source))
    path = data_dir(args, environ) / data_folder.TOKEN_FILE
    if (args.data or environ.get(DATA_VARIABLE)) and path.exists():
        return _read(path)
    if environ.get(TOKEN_VARIABLE):
        return _usable(environ[TOKEN_VARIABLE], TOKEN_VARIABLE)
    if path.exists():
        return _read(path)
    raise ConfigurationError(
        str(path), f"there is no operator token: pass --data of the server, --token-file or {TOKEN_VARIABLE}"
    )


def _read(path: Path) -> str:
    try:
        return _usable(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), "holds no token") from error


def _usable(text: str, where: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(where, "holds no token")
    return token
