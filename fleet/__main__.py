"""``mindfleet``: the fleet server and the operator's commands."""

from __future__ import annotations

import argparse
import json
import os
import sys

from fleet.cli.arguments import parser

DEBUG_VARIABLE = "MINDEDGE_DEBUG"
EXTRA_OF = {"psycopg": "postgresql"}
"""Packages that another extra than ``fleet`` brings."""


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 failed, 2 used wrongly or an extra is missing."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as stop:
        if stop.code == 2 and "--json" in (sys.argv[1:] if argv is None else argv):
            print(json.dumps({"error": "used wrongly: the line on stderr says how"}))
        raise
    try:
        return _run(args)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("fleet", "edge_contracts", ""):
            raise
        line = f"pip install 'mindedge[{EXTRA_OF.get(package, 'fleet')}]'"
        return _failed(args, f"mindfleet {args.command} needs {package}, which is not installed: {line}", 2)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe went away; the interpreter must not complain at its end
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # The last resort: a bug shows as one line, its traceback on request.
        if os.environ.get(DEBUG_VARIABLE):
            raise
        line = f"internal error: {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 to see where)"
        return _failed(args, "mindfleet: " + line.replace("\n", " "), 1)


def _failed(args: argparse.Namespace, line: str, code: int, *, coloured: str | None = None) -> int:
    """One line on stderr; with --json one document on stdout as well, so that its reader always finds one."""
    print(coloured or line, file=sys.stderr)
    if getattr(args, "json", False):
        print(json.dumps({"error": line.removeprefix("mindfleet: ")}, ensure_ascii=False))
    return code


def _run(args: argparse.Namespace) -> int:
    from edge_contracts.errors import ContractError
    from fleet.errors import BrokerBinaryMissing, ConfigurationError, FleetError, UnsignedBundle

    try:
        code: int = args.run(args)
        return code
    except UnsignedBundle as error:
        from fleet.cli.output import red

        return _failed(args, f"mindfleet: {error}", 1, coloured=red(f"mindfleet: {error}"))
    except (ConfigurationError, BrokerBinaryMissing) as error:
        return _failed(args, f"mindfleet: {error}", 2)
    except (FleetError, ContractError) as error:
        from fleet.cli.flags import in_flags

        return _failed(args, f"mindfleet: {in_flags(error)}", 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _failed(args, f"mindfleet: {where}{error.strerror or error}", 1)


if __name__ == "__main__":
    sys.exit(main())
