"""`mindie run`: the daemon."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from typing import Any

from agent.cli.serving_flags import add_serving_flags
from agent.cli.terminal import examples


def register(subparsers: Any, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "run", parents=[common], help="the daemon: serve, take updates, report",
        description="Serves models by the Open Inference Protocol, takes updates from the fleet, reports.",
        epilog=examples("mindie run --host 0.0.0.0 --port 8000 --cpus 0-1 --token-file token.txt"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_serving_flags(parser)
    parser.add_argument("--telemetry-s", type=float, metavar="S", help="seconds between telemetry (default 30)")
    parser.add_argument("--verbose", action="store_true", help="log every step")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Until SIGTERM or SIGINT; a second one ends at once."""
    from agent.composition import make_daemon
    from agent.config import load_config

    config = load_config(args, os.environ)
    _set_up_log(verbose=args.verbose)
    daemon = make_daemon(config)

    def stop(number: int, frame: object) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        daemon.request_stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def ready(port: int) -> None:
        scheme = "https" if config.serving.tls_cert else "http"
        text = "serving on %s://%s:%d, data in %s"
        logging.getLogger("mindie").info(text, scheme, config.host, port, config.data_dir)

    daemon.run(os.environ, ready)
    return 0


def _set_up_log(*, verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        level=logging.DEBUG if verbose else logging.INFO,
    )  # fmt: skip
    logging.getLogger("urllib3").setLevel(logging.WARNING)
