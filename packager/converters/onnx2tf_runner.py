"""ONNX -> TFLite float32 by onnx2tf, run in the `tflite` toolchain as a process of its own.

What the tool does that one must know (2.6.9): it rewrites its input file in place, names the result and parts of its
content after that file, starts `onnxsim` from PATH and goes on with a mere warning when there is none, and ends with
status 0 for models that are wrong. So it gets a copy under a fixed name, a PATH that begins with its own environment,
and its result must be compared with the source by whoever uses it. It needs no network.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packager.child_process import Finished, run_to_end
from packager.converters.tflite_precision import require_full_precision
from packager.errors import ConversionTimedOut, ConverterError
from packager.quiet_tools import silenced
from packager.toolchain import Environment

NAME = "onnx2tf"
SOURCE_FILE = "model.onnx"
RESULT_FILE = "model_float32.tflite"
NOT_SIMPLIFIED = "Failed to optimize the onnx file."
TFLITE_IDENTIFIER = b"TFL3"
RAISED = re.compile(r"[\w.]*(Error|Exception|Interrupt)\b: ")
PASSED_ON = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


class TfliteModel(NamedTuple):
    """A float32 TFLite file. Signature `serving_default` has the source's tensor names (`:` becomes `__`)."""

    content: bytes
    notes: tuple[str, ...]


def convert(
    onnx_model: bytes,
    environment: Environment,
    environ: Mapping[str, str],
    timeout_s: float,
    heartbeat: Callable[[str], None],
    fixed_shapes: Mapping[str, Sequence[int]] | None = None,
    work_dir: Path | None = None,
) -> TfliteModel:
    """Convert one self-contained ONNX file; the same bytes give the same bytes.

    `fixed_shapes` freezes free dimensions by input name. A free batch dimension stays free, image-like tensors may
    become channels-last. `heartbeat` is called about once a second with the tool's last line. `work_dir` holds its
    temporary files (default: the system's place). Raises ConverterError, ConversionTimedOut.
    """
    with tempfile.TemporaryDirectory(prefix="onnx2tf-", dir=work_dir) as name:
        folder = Path(name)
        (folder / SOURCE_FILE).write_bytes(onnx_model)
        finished = _run(folder, environment, environ, timeout_s, heartbeat, fixed_shapes or {})
        if finished.returncode is None:
            raise ConversionTimedOut(NAME, timeout_s, finished.last_lines)
        result = folder / "out" / RESULT_FILE
        if finished.returncode != 0 or not result.is_file():
            raise ConverterError(NAME, _reason(finished), finished.last_lines)
        content = result.read_bytes()
    if content[4:8] != TFLITE_IDENTIFIER:
        raise ConverterError(NAME, "wrote a file that is no TFLite model", finished.last_lines)
    skipped = any(NOT_SIMPLIFIED in line for line in finished.last_lines)
    notes = ("onnxsim could not simplify the graph before the conversion",) if skipped else ()
    return TfliteModel(require_full_precision(content), notes)


def _run(
    folder: Path,
    environment: Environment,
    environ: Mapping[str, str],
    timeout_s: float,
    heartbeat: Callable[[str], None],
    fixed_shapes: Mapping[str, Sequence[int]],
) -> Finished:
    command: list[str | Path] = [
        environment.python, "-I", "-m", "onnx2tf", "-i", SOURCE_FILE, "-o", "out", "-v", "warn",
        *_shape_options(fixed_shapes),
    ]  # fmt: skip
    try:
        return run_to_end(
            command,
            environ=_child_environment(folder, environment, environ),
            working_folder=folder,
            log=folder / "onnx2tf.log",
            timeout_s=timeout_s,
            heartbeat=heartbeat,
        )
    except OSError as error:
        raise ConverterError(NAME, f"{error.filename}: {error.strerror}; install the toolchain again") from error


def _shape_options(fixed_shapes: Mapping[str, Sequence[int]]) -> list[str]:
    shapes = [f"{name}:{','.join(map(str, shape))}" for name, shape in fixed_shapes.items()]
    return ["-ois", *shapes] if shapes else []


def _child_environment(folder: Path, environment: Environment, environ: Mapping[str, str]) -> dict[str, str]:
    """Only what the tool needs: nothing of the caller's Python, no accelerator, temporary files in `folder`."""
    return {
        **silenced({name: environ[name] for name in PASSED_ON if name in environ}),
        "PATH": f"{environment.scripts}:/usr/bin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8",
    }


def _reason(finished: Finished) -> str:
    """A traceback's closing line where there is one, else the last line."""
    closing = [line for line in finished.last_lines if RAISED.match(line)]
    said = (closing or list(finished.last_lines) or ["it said nothing"])[-1]
    return f"gave no model (exit status {finished.returncode}): {said}"
