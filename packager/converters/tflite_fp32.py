"""ONNX -> TFLite in full precision, by onnx2tf in an environment of its own."""

from __future__ import annotations

from pathlib import Path

from packager.converters import onnx2tf_runner, onnx_file
from packager.converters.converter import ConversionJob, Converted, Needs, Progress
from packager.errors import ConverterError
from packager.toolchain import Toolchain, load_toolchain, require_installed, toolchains_root

FILE_NAME = "model.tflite"
TIMEOUT_S = 600.0
MAX_BYTES = 1 << 30


class TfliteFp32:
    """See the module."""

    name = "tflite_fp32"
    needs = Needs(toolchain="tflite")
    spawns_own_process = True

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises ToolchainMissing, ToolchainUnsupported, ConverterError."""
        toolchain = load_toolchain("tflite")
        environment = require_installed(toolchain, toolchains_root(job.environ))
        content = self_contained(Path(job.model))
        out = Path(job.out)
        made = onnx2tf_runner.convert(
            content, environment, job.environ, TIMEOUT_S, progress, job.fixed_shapes or None, out.parent
        )
        out.mkdir(parents=True, exist_ok=True)
        (out / FILE_NAME).write_bytes(made.content)
        return Converted(entry=FILE_NAME, tools=_versions(toolchain), notes=list(made.notes))


def self_contained(path: Path) -> bytes:
    """The model in one piece. Raises ConverterError when it is too large for one."""
    size = sum(file.stat().st_size for file in path.parent.iterdir() if file.name.startswith(path.name))
    if size > MAX_BYTES:
        raise ConverterError("tflite_fp32", f"{size >> 20} MB: a TFLite file holds at most 2 GB, the tool needs half")
    model = onnx_file.load(path)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _versions(toolchain: Toolchain) -> dict[str, str]:
    pins = [line.partition(";")[0].strip() for step in toolchain.steps for line in step.requirements]
    return {name: pin for name, _, pin in (line.partition("==") for line in pins) if name in ("onnx2tf", "onnxsim")}
