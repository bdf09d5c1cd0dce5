"""A TFLite source as it is; only its permission to compute in half precision is taken back (tflite_precision)."""

from __future__ import annotations

from pathlib import Path

from edge_contracts._version import __version__
from packager.converters.converter import ConversionJob, Converted, Needs, Progress
from packager.converters.tflite_fp32 import FILE_NAME
from packager.converters.tflite_precision import require_full_precision


class TfliteAsIs:
    """See the module."""

    name = "tflite_as_is"
    needs = Needs()
    spawns_own_process = True

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises nothing but OSError."""
        progress("copying")
        out = Path(job.out)
        out.mkdir(parents=True, exist_ok=True)
        (out / FILE_NAME).write_bytes(require_full_precision(Path(job.model).read_bytes()))
        return Converted(entry=FILE_NAME, tools={"mindedge": __version__})
