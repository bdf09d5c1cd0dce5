"""``mindfleet serve``: the server, until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def register(subparsers: argparse._SubParsersAction[Any], parents: list[argparse.ArgumentParser]) -> None:
    command = subparsers.add_parser(
        "serve",
        parents=parents,
        help="run the server: REST API, bundle registry, MQTT broker",
        description="Runs the server in the foreground. Ctrl-C or SIGTERM ends it and all it started.",
        epilog="example:\n  mindfleet serve --data ./fleet --host 0.0.0.0 --port 8080 --mqtt-port 1883",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--host", help="address to listen on, HTTP and MQTT (default 127.0.0.1)")
    command.add_argument("--port", help="HTTP port (default 8080; 0: a free one)")
    command.add_argument("--mqtt-port", help="MQTT port (default 1883; 0: a free one)")
    command.add_argument("--broker", choices=("embedded", "mosquitto"), help="default: embedded (nats-server)")
    command.add_argument(
        "--database",
        metavar="URL",
        help="default: SQLite in the data folder; a password belongs in ~/.pgpass or PGPASSFILE",
    )
    command.add_argument("--verbose", action="store_true", help="tell more on stderr")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serves until a signal; 0 then."""
    from fleet.config import load_config

    config = load_config(args, os.environ)
    logging.basicConfig(
        stream=sys.stderr, level=logging.DEBUG if args.verbose else logging.WARNING, format="mindfleet: %(message)s"
    )
    stopped = threading.Event()
    with _signals(stopped.set):
        from fleet.cli.output import print_json, say
        from fleet.composition import FleetServer

        server = FleetServer(config)
        try:
            server.start()
            say(f"mindfleet: ready on {server.url}, MQTT on port {server.mqtt_port}, data in {config.data_dir}")
            if args.json:
                print_json({"url": server.url, "mqtt_port": server.mqtt_port, "data": str(config.data_dir)})
                sys.stdout.flush()
            stopped.wait()
        finally:
            server.stop()
    say("mindfleet: stopped")
    return 0


class _signals:  # noqa: N801 - reads as a with statement
    """SIGINT and SIGTERM call ``stop``; a second one ends the process at once."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._former: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._former[number] = signal.signal(number, self._received)

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)

    def _received(self, number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        self._stop()
