"""`mindspeed`: the trainer's command.

mindspeed doctor [--json]      what this machine offers a training run
"""

from __future__ import annotations

import argparse
import sys

import msgspec

from edge_contracts._version import __version__
from mindspeed.environment import EnvironmentReport, inspect_environment
from mindspeed.errors import MindSpeedError, TrainerMissing


def main(argv: list[str] | None = None) -> int:
    """Exit 0 done, 1 failed, 2 used wrongly or the trainer extra is missing."""
    parser = argparse.ArgumentParser(prog="mindspeed", description="Trains models that the fleet runs.")
    parser.add_argument("--version", action="version", version=f"mindspeed {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = commands.add_parser(
        "doctor", help="what this machine offers a training run", epilog="example: mindspeed doctor --json"
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    try:
        report = inspect_environment()
    except TrainerMissing as error:
        print(f"mindspeed: {error}", file=sys.stderr)
        return 2
    except MindSpeedError as error:
        print(f"mindspeed: {error}", file=sys.stderr)
        return 1
    print(msgspec.json.encode(report).decode() if args.json else _describe(report))
    return 0


def _describe(report: EnvironmentReport) -> str:
    lines = [f"torch {report.torch}, CUDA {report.cuda or 'none'}, {report.threads} threads"]
    for device in report.devices:
        bf16 = {True: "bf16 in hardware", False: "no bf16 in hardware", None: "bf16 unknown"}[device.bf16]
        lines.append(f"{device.kind:5} {device.name}, {device.memory_gb} GiB, {bf16}")
    lines.append(f"precision to start with: {report.precision}")
    return "\n".join([*lines, *(f"advice: {line}" for line in report.advice)])


if __name__ == "__main__":
    sys.exit(main())
