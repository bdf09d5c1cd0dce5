"""Run a converter in a process of its own: `python -m packager.converters.child JOB.json` writes a result beside it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

from packager.converters.converter import ConversionJob, Converted
from packager.converters.registry import converter
from packager.errors import PackagerError
from packager.quiet_tools import silence
from packager.run_variant import one_line

JOB_FILE, RESULT_FILE = "job.json", "result.json"
PROGRESS_MARK = "mindpack-progress: "


class ChildResult(msgspec.Struct, frozen=True):
    """Either ``converted``, or ``reason``."""

    converted: Converted | None = None
    reason: str = ""


def run_conversion(job: ConversionJob) -> ChildResult:
    """What the converter raises becomes a reason in one line."""
    made = converter(job.converter)
    try:
        return ChildResult(made.convert(job, _progress))
    except PackagerError as error:
        return ChildResult(reason=str(error))
    except Exception as error:  # noqa: BLE001 - a foreign tool raises what it likes
        if os.environ.get("MINDEDGE_DEBUG"):
            import traceback

            traceback.print_exc()
        return ChildResult(reason=f"{job.converter}: {type(error).__name__}: {one_line(error)}")


def _progress(text: str) -> None:
    sys.stdout.write(f"{PROGRESS_MARK}{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Ends with status 0 when a result was written."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    silence()
    folder = Path(sys.argv[1]).parent
    job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=ConversionJob)
    (folder / RESULT_FILE).write_bytes(msgspec.json.encode(run_conversion(job)))
    sys.stdout.flush()
    os._exit(0)  # threads of a tool that hang at exit hold nobody up


if __name__ == "__main__":
    main()
