"""``mindpack``: the packager's command. Each command imports what it uses; nothing heavy is imported here."""

from __future__ import annotations

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
    """Run one command. Returns 0 done, 1 failed, 2 used wrongly or an extra missing; never raises but SystemExit."""
    from edge_contracts.errors import ContractError
    from packager.cli.arguments import parser
    from packager.errors import PackagerError, RecipeRefused

    args = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone (`mindpack inspect | head`): nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except ModuleNotFoundError as error:
        return _missing_extra(error)
    except RecipeRefused as error:
        return _say(str(error), EXIT_USAGE)
    except (PackagerError, ContractError, OSError) as error:
        return _say(_os_text(error) if isinstance(error, OSError) else str(error), EXIT_FAILED)
    except Exception as error:  # noqa: BLE001 - the last resort: a bug shows as one line, its traceback on request
        text = f"internal error: {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 to see where)"
        return _say(text.replace("\n", " "), EXIT_FAILED)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """A polite kill ends like Ctrl-C, so that converters' processes and temporary folders go with us."""
    raise KeyboardInterrupt


def _say(text: str, code: int) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exc()
    print(f"mindpack: {text}", file=sys.stderr)
    return code


def _os_text(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _missing_extra(error: ModuleNotFoundError) -> int:
    module = (error.name or "").split(".")[0]
    if module in ("packager", "edge_contracts"):
        return _say(f"this installation is incomplete: {error.name} is missing", EXIT_FAILED)
    extra = module if module in ("openvino", "nncf") else "packager"
    return _say(f"{module} is not installed: pip install 'mindedge[{extra.replace('nncf', 'openvino')}]'", EXIT_USAGE)


if __name__ == "__main__":
    sys.exit(main())
