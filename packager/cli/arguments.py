"""The command line of ``mindpack``: global options, and each room's own commands."""

from __future__ import annotations

import argparse
import importlib
from typing import NoReturn

from edge_contracts._version import __version__
from packager.errors import WrongUsage

ROOMS = ("packager.cli.build", "packager.cli.inspect", "packager.cli.transfer", "packager.cli.toolchain")
"""Modules with ``register(subparsers, common)``, in the order of the help. None imports at module level what only its
command needs."""

EPILOG = """examples:
  mindpack build digits.onnx -o digits-1.0.0.mindie --name digits --version 1.0.0 --calibration calibration.npz
  mindpack inspect digits-1.0.0.mindie
  mindpack verify digits-1.0.0.mindie --allow-unsigned
  mindpack diff digits-1.0.0.mindie digits-1.1.0.mindie
  mindpack push digits-1.0.0.mindie http://127.0.0.1:5000/models/digits --allow-unsigned
  mindpack toolchain install tflite             the environment that makes TFLite variants
  mindpack toolchain list --json
"""


class Parser(argparse.ArgumentParser):
    """Raises WrongUsage where argparse would print and exit: what is printed depends on --json."""

    def error(self, message: str) -> NoReturn:
        raise WrongUsage(message, self.format_usage())


def parser() -> argparse.ArgumentParser:
    """The whole parser. Parsing raises WrongUsage, and SystemExit(0) after --help and --version."""
    top = Parser(
        prog="mindpack",
        description="Turn one model into one bundle with a variant for every edge device.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"mindpack {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND")
    top.set_defaults(run=None, shown=top)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    for room in ROOMS:
        importlib.import_module(room).register(subparsers, common)
    return top
