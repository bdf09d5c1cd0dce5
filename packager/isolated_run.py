"""Start `packager.run_variant` and say how it ended: the only way the packager executes a model."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from packager.child_process import Finished, run_to_end
from packager.errors import RuntimeRefused
from packager.file_runtimes import FileTensor
from packager.quiet_tools import silenced
from packager.run_variant import ANSWERS_FILE, JOB_FILE, RESULT_FILE, RunJob, RunResult
from packager.samples import Sample, read_rows, write_rows

RUN_TIMEOUT_S = 900.0
ROOT = Path(__file__).resolve().parents[1]
Heartbeat = Callable[[str], None]


@dataclass(frozen=True)
class Answers:
    """What a file answered, row by row ({} where it failed), and how it describes itself."""

    rows: list[Sample]
    failures: dict[int, str]
    inputs: list[FileTensor]
    outputs: list[FileTensor]
    version: str

    def require_all(self, runtime: str) -> list[Sample]:
        """The rows. Raises RuntimeRefused with the first failure."""
        for index, reason in sorted(self.failures.items()):
            raise RuntimeRefused(runtime, f"cannot run sample {index}: {reason}")
        return self.rows


@dataclass(frozen=True)
class ModelRunner:
    """``work_dir`` holds its temporary files, ``environ`` is what its processes get, ``heartbeat`` hears of waiting."""

    work_dir: Path
    environ: Mapping[str, str]
    heartbeat: Heartbeat

    def run(self, runtime: str, model: Path, rows: Sequence[Sample]) -> Answers:
        """Load and run. Raises RuntimeRefused when it does not load, dies, or does not end."""
        with tempfile.TemporaryDirectory(prefix="run-", dir=self.work_dir) as name:
            folder = Path(name)
            rows_file = folder / "rows.bin"
            write_rows(rows_file, rows)
            job = RunJob(runtime, str(model), str(rows_file) if rows else "")
            (folder / JOB_FILE).write_bytes(msgspec.json.encode(job))
            finished = run_to_end(
                [sys.executable, "-m", "packager.run_variant", folder / JOB_FILE],
                environ=child_environment(self.environ, folder), working_folder=folder, log=folder / "log",
                timeout_s=RUN_TIMEOUT_S, heartbeat=self.heartbeat,
            )  # fmt: skip
            result_file = folder / RESULT_FILE
            if not result_file.exists():
                raise RuntimeRefused(runtime, ending(finished, RUN_TIMEOUT_S))
            result = msgspec.json.decode(result_file.read_bytes(), type=RunResult)
            if result.refused:
                raise RuntimeRefused(runtime, f"does not load it: {result.refused}")
            failures = {int(index): reason for index, reason in result.failures.items()}
            return Answers(
                read_rows(folder / ANSWERS_FILE), failures, result.inputs, result.outputs, result.version
            )  # fmt: skip


def ending(finished: Finished, timeout_s: float) -> str:
    """How a process ended that gave no result."""
    if finished.returncode is None:
        return f"did not end within {timeout_s:g} s"
    if finished.returncode < 0:
        try:
            name = signal.Signals(-finished.returncode).name
        except ValueError:
            name = f"signal {-finished.returncode}"
        return f"died ({name})"
    said = f": {finished.last_lines[-1]}" if finished.last_lines else ""
    return f"ended with status {finished.returncode}{said}"


def child_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The caller's environment, less what makes results differ from run to run; our own code can be imported;
    tools report to nobody."""
    path = os.pathsep.join(part for part in (str(ROOT), environ.get("PYTHONPATH", "")) if part)
    return {
        **silenced(environ),
        "PYTHONPATH": path,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(folder),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
