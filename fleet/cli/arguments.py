"""The command line of ``mindfleet``: global options, and each module's own commands."""

from __future__ import annotations

import argparse

from edge_contracts._version import __version__
from fleet.cli import bundle, device, rollout, serve, token, tui

EPILOG = """examples:
  mindfleet serve --data ./fleet                          the server: REST API, registry, MQTT broker
  mindfleet token create --uses 3 --out token.txt         let three devices join
  mindfleet bundle push digits-1.0.0.mindie --allow-unsigned
  mindfleet rollout create --bundle digits --version 1.0.0 --wave 1 --wave 100% --allow-unsigned --start
  mindfleet tui                                           watch and steer it
"""


def parser() -> argparse.ArgumentParser:
    """The whole parser."""
    top = argparse.ArgumentParser(
        prog="mindfleet",
        description="Roll bundles out to a fleet of devices and see what really happened.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"mindfleet {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    places, output, remote = place_options(), output_options(), remote_options()
    serve.register(subparsers, [places, output])
    for module in (device, token, bundle, rollout):
        module.register(subparsers, [places, output, remote])
    tui.register(subparsers, [places, remote])
    return top


def place_options() -> argparse.ArgumentParser:
    """What every command takes."""
    places = argparse.ArgumentParser(add_help=False)
    places.add_argument(
        "--data", metavar="DIR",
        help="the server's data folder (MINDEDGE_DATA; default ~/.local/share/mindedge/fleet, /var/lib/mindedge/fleet "
             "for root)",
    )  # fmt: skip
    places.add_argument("--config", metavar="FILE", help="configuration in TOML (MINDEDGE_CONFIG)")
    return places


def output_options() -> argparse.ArgumentParser:
    """What the commands take that print a result."""
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    return output


def remote_options() -> argparse.ArgumentParser:
    """What the commands that talk to a server take."""
    remote = argparse.ArgumentParser(add_help=False)
    remote.add_argument(
        "--server", metavar="URL", help="default: the one running on --data, else http://127.0.0.1:8080"
    )
    remote.add_argument("--token-file", metavar="F|-", help="the operator's token; default DATA/operator.token")
    return remote
