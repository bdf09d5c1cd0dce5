"""``mindfleet``: the fleet server and the operator's commands."""

from __future__ import annotations

import os
import sys

from fleet.cli.arguments import parser

DEBUG_VARIABLE = "MINDEDGE_DEBUG"
EXTRA_OF = {"psycopg": "postgresql"}
"""Packages that another extra than ``fleet`` brings."""


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 failed, 2 used wrongly or an extra is missing."""
    args = parser().parse_args(argv)
    try:
        return _run(args)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("fleet", "edge_contracts", ""):
            raise
        line = f"pip install 'mindedge[{EXTRA_OF.get(package, 'fleet')}]'"
        print(f"mindfleet {args.command} needs {package}, which is not installed: {line}", file=sys.stderr)
        return 2
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
        print("mindfleet: " + line.replace("\n", " "), file=sys.stderr)
        return 1


def _run(args: object) -> int:
    from edge_contracts.errors import ContractError
    from fleet.errors import BrokerBinaryMissing, ConfigurationError, FleetError, UnsignedBundle

    try:
        code: int = args.run(args)  # type: ignore[attr-defined]
        return code
    except UnsignedBundle as error:
        from fleet.cli.output import red

        print(red(f"mindfleet: {error}"), file=sys.stderr)
        return 1
    except (ConfigurationError, BrokerBinaryMissing) as error:
        print(f"mindfleet: {error}", file=sys.stderr)
        return 2
    except (FleetError, ContractError) as error:
        print(f"mindfleet: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"mindfleet: {where}{error.strerror or error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
