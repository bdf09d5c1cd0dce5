"""``mindie``: the device's command. No runtime, NumPy or driver is imported here: each command imports what it uses."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

DEBUG_VARIABLE = "MINDEDGE_DEBUG"
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 done, 1 failed, 2 used wrongly or an extra missing; never raises but SystemExit."""
    from agent.cli.arguments import parser
    from agent.errors import AgentError, ConfigurationError
    from edge_contracts.errors import ContractError

    words = sys.argv[1:] if argv is None else argv
    try:
        args = parser().parse_args(argv)
    except SystemExit as stop:
        if stop.code == EXIT_USAGE and "--json" in words:
            _print_failure("used wrongly: the line on stderr says how")
        raise
    is_json = bool(getattr(args, "json", False))
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone (`mindie history | head`): nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except ConfigurationError as error:
        return _say(str(error), EXIT_USAGE, is_json=is_json)
    except ModuleNotFoundError as error:
        return _missing_extra(error, is_json=is_json)
    except (AgentError, ContractError, OSError) as error:
        text = _os_text(error) if isinstance(error, OSError) else str(error)
        return _say(text, EXIT_FAILED, is_json=is_json)
    except Exception as error:  # noqa: BLE001 - the last resort: a bug shows as one line, its traceback on request
        text = f"internal error: {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 to see where)"
        return _say(text.replace("\n", " "), EXIT_FAILED, is_json=is_json)


def _say(text: str, code: int, *, is_json: bool) -> int:
    """One line on stderr; with --json one document on stdout as well, so that its reader always finds one."""
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exc()
    print(f"mindie: {text}", file=sys.stderr)
    if is_json:
        _print_failure(text)
    return code


def _print_failure(text: str) -> None:
    import json

    with contextlib.suppress(BrokenPipeError):
        print(json.dumps({"error": text}, ensure_ascii=False), flush=True)


def _os_text(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _missing_extra(error: ModuleNotFoundError, *, is_json: bool) -> int:
    module = (error.name or "").split(".")[0]
    if module in ("agent", "edge_contracts"):
        return _say(f"this installation is incomplete: {error.name} is missing", EXIT_FAILED, is_json=is_json)
    return _say(f"{module} is not installed: pip install 'mindedge[agent]'", EXIT_USAGE, is_json=is_json)


if __name__ == "__main__":
    sys.exit(main())
