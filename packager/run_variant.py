"""Run a model file in a process of its own: a runtime that dies takes this process with it, not the build.

    python -m packager.run_variant JOB.json

reads the job, runs the file over its rows and writes the answers and a result beside it. A row that fails does not
end it.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import msgspec

from packager.file_runtimes import OPENERS, FileTensor, runtime_version
from packager.quiet_tools import silence
from packager.samples import Sample, read_rows, write_rows

JOB_FILE, ANSWERS_FILE, RESULT_FILE = "job.json", "answers.bin", "result.json"
MAX_REASON = 400


class RunJob(msgspec.Struct, frozen=True):
    """``model`` is the file that the runtime opens, ``rows`` a file of packager.samples.write_rows ("" for none)."""

    runtime: str
    model: str
    rows: str


class RunResult(msgspec.Struct, frozen=True):
    """``refused``: why the runtime did not load the file, "" when it did. ``failures``: row number -> why."""

    refused: str
    version: str
    inputs: list[FileTensor] = []
    outputs: list[FileTensor] = []
    failures: dict[str, str] = {}


def run_job(job: RunJob) -> tuple[RunResult, list[Sample]]:
    """Answers by row, empty where the row failed. What a runtime raises becomes text; nothing is raised."""
    try:
        opened = OPENERS[job.runtime](Path(job.model))
    except Exception as error:  # noqa: BLE001 - a foreign runtime raises what it likes
        return RunResult(one_line(error), runtime_version(job.runtime)), []
    answers: list[Sample] = []
    failures: dict[str, str] = {}
    for index, row in enumerate(read_rows(Path(job.rows)) if job.rows else []):
        try:
            answers.append(opened.run(row))
        except Exception as error:  # noqa: BLE001 - a foreign runtime raises what it likes
            answers.append({})
            failures[str(index)] = one_line(error)
    return RunResult("", runtime_version(job.runtime), opened.inputs, opened.outputs, failures), answers


def one_line(error: BaseException) -> str:
    """A foreign error in one line, without the marks that onnxruntime puts before it."""
    text = " ".join(str(error).split()) or type(error).__name__
    _, mark, rest = text.partition(" : ")
    if text.startswith("[ONNXRuntimeError]") and mark:
        text = rest.split(" : ", 2)[-1]
    text = re.sub(r"^Load model from \S+ failed: ?", "", text)
    return text[:MAX_REASON]


def main() -> int:
    """Returns 0 when a result was written."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    silence()
    folder = Path(sys.argv[1]).parent
    job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=RunJob)
    result, answers = run_job(job)
    write_rows(folder / ANSWERS_FILE, answers)
    (folder / RESULT_FILE).write_bytes(msgspec.json.encode(result))
    sys.stdout.flush()
    os._exit(0)  # a runtime's threads that hang at exit hold nobody up


if __name__ == "__main__":
    main()
