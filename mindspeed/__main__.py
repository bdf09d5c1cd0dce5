"""`mindspeed`: the trainer's command.

mindspeed doctor [--json]      what this machine offers a training run
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import NoReturn

import msgspec

from edge_contracts._version import __version__
from mindspeed.environment import EnvironmentReport, inspect_environment
from mindspeed.errors import MindSpeedError, TrainerMissing, WrongUsage


class Parser(argparse.ArgumentParser):
    """Raises WrongUsage where argparse would print and exit: what is printed depends on --json."""

    def error(self, message: str) -> NoReturn:
        raise WrongUsage(message, self.format_usage())


def main(argv: list[str] | None = None) -> int:
    """Exit 0 done, 1 failed, 2 used wrongly or the trainer extra is missing.

    With --json a failure is one document ``{"error": ...}`` on stdout. Raises SystemExit(0) for --help and --version.
    """
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in words
    parser = _parser()
    try:
        args = parser.parse_args(words)
        if args.command is None:
            parser.print_help()
            return 2
        report = inspect_environment()
    except WrongUsage as error:
        sys.stderr.write(error.usage)
        return _fail(error, 2, as_json)
    except TrainerMissing as error:
        return _fail(error, 2, as_json)
    except MindSpeedError as error:
        return _fail(error, 1, as_json)
    print(msgspec.json.encode(report).decode() if args.json else _describe(report))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="mindspeed", description="Trains models that the fleet runs.", epilog="example: mindspeed doctor --json"
    )
    parser.add_argument("--version", action="version", version=f"mindspeed {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    doctor = commands.add_parser(
        "doctor", help="what this machine offers a training run", epilog="example: mindspeed doctor --json"
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def _fail(error: MindSpeedError, code: int, as_json: bool) -> int:
    """One line on stderr, with --json one document on stdout; the code."""
    print(f"mindspeed: {error}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": str(error)}))
    return code


def _describe(report: EnvironmentReport) -> str:
    lines = [f"torch {report.torch}, CUDA {report.cuda or 'none'}, {report.threads} threads"]
    for device in report.devices:
        bf16 = {True: "bf16 in hardware", False: "no bf16 in hardware", None: "bf16 unknown"}[device.bf16]
        lines.append(f"{device.kind:5} {device.name}, {device.memory_gb} GiB, {bf16}")
    lines.append(f"precision to start with: {report.precision}")
    return "\n".join([*lines, *(f"advice: {line}" for line in report.advice)])


if __name__ == "__main__":
    sys.exit(main())
