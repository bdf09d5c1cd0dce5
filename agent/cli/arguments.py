"""The command line of ``mindie``: global options, and each room's own commands."""

from __future__ import annotations

import argparse
import importlib

from edge_contracts._version import __version__

ROOMS = (
    "agent.cli.run", "agent.cli.enroll", "agent.cli.install", "agent.cli.serve", "agent.cli.status",
    "agent.cli.history", "agent.cli.rollback", "agent.cli.explain", "agent.cli.probe", "agent.cli.bench",
    "agent.cli.doctor",
)  # fmt: skip
"""Modules with ``register(subparsers, common)``, in the order of the help. None imports at module level what only its
command needs."""

EPILOG = """examples:
  mindie probe                                  what this device is and has
  mindie enroll --token-file token.txt          join a fleet
  mindie run --port 8000                        the daemon: serve, update, report
  mindie install digits-1.0.0.mindie --allow-unsigned
  mindie status --json
  mindie doctor                                 what is wrong here, and how to fix it
"""


def parser() -> argparse.ArgumentParser:
    """The whole parser."""
    top = argparse.ArgumentParser(
        prog="mindie",
        description="Measure, choose, prove and serve models on this device.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"mindie {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    common = common_options()
    for room in ROOMS:
        importlib.import_module(room).register(subparsers, common)
    return top


def common_options() -> argparse.ArgumentParser:
    """What every command takes."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--data", metavar="DIR", help="the agent's data folder (MINDEDGE_DATA)")
    common.add_argument("--config", metavar="FILE", help="configuration in TOML (MINDEDGE_CONFIG)")
    common.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    return common
