"""``mindpack``: the packager's command. Each command imports what it uses; nothing heavy is imported here."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

DEBUG_VARIABLE = "MINDEDGE_DEBUG"
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 done, 1 failed, 2 used wrongly or an extra missing, 130 interrupted.

    With --json a failure is one document ``{"error": ...}`` on stdout. Raises SystemExit(0) for --help and --version.
    """
    from packager.cli.arguments import parser
    from packager.errors import WrongUsage
    from packager.quiet_tools import silence

    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    silence()
    try:
        args = parser().parse_args(words)
    except WrongUsage as error:
        sys.stderr.write(error.usage)
        return _fail(str(error), EXIT_USAGE, as_json)
    if args.run is None:
        args.shown.print_help()
        return EXIT_USAGE
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's choice stays
            signal.signal(number, _interrupt)
    return _run(args, bool(args.json))


def _run(args: argparse.Namespace, as_json: bool) -> int:
    from edge_contracts.errors import ContractError
    from packager.errors import PackagerError, RecipeRefused, UnsignedRefused

    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        return _fail("interrupted", EXIT_INTERRUPTED, as_json)
    except BrokenPipeError:
        # The reader of our output is gone (`mindpack inspect | head`): nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except ModuleNotFoundError as error:
        return _missing_extra(error, as_json)
    except RecipeRefused as error:
        return _fail(str(error), EXIT_USAGE, as_json)
    except UnsignedRefused as error:
        from packager.cli.inspect import red

        return _fail(str(error), EXIT_FAILED, as_json, red(str(error), sys.stderr.isatty()))
    except (PackagerError, ContractError, OSError) as error:
        return _fail(_os_text(error) if isinstance(error, OSError) else str(error), EXIT_FAILED, as_json)
    except Exception as error:  # noqa: BLE001 - the last resort: a bug shows as one line, its traceback on request
        text = f"internal error: {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 to see where)"
        return _fail(text.replace("\n", " "), EXIT_FAILED, as_json)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """A polite kill ends like Ctrl-C, so that converters' processes and temporary folders go with us."""
    raise KeyboardInterrupt


def _fail(text: str, code: int, as_json: bool, shown: str = "") -> int:
    """One line on stderr (``shown`` where it looks otherwise there), with --json one document on stdout; the code."""
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exc()
    print(f"mindpack: {shown or text}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": text}))
    return code


def _os_text(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _missing_extra(error: ModuleNotFoundError, as_json: bool) -> int:
    module = (error.name or "").split(".")[0]
    if module in ("packager", "edge_contracts"):
        return _fail(f"this installation is incomplete: {error.name} is missing", EXIT_FAILED, as_json)
    extra = module if module in ("openvino", "nncf") else "packager"
    line = f"pip install 'mindedge[{extra.replace('nncf', 'openvino')}]'"
    return _fail(f"{module} is not installed: {line}", EXIT_USAGE, as_json)


if __name__ == "__main__":
    sys.exit(main())
