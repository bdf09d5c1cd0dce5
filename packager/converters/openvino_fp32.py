"""Any source that OpenVINO reads -> OpenVINO IR in full precision."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from packager.converters import openvino_file
from packager.converters.converter import ConversionJob, Converted, Needs, Progress


class OpenVinoFp32:
    """See the module."""

    name = "openvino_fp32"
    needs = Needs(modules=("openvino",), pip_line="pip install 'mindedge[openvino]'")
    spawns_own_process = False

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises what OpenVINO raises for operators it does not know."""
        progress("converting")
        model = openvino_file.fix_shapes(openvino_file.read(Path(job.model)), job.fixed_shapes)
        entry = openvino_file.save(model, Path(job.out))
        return Converted(entry=entry, tools={"openvino": version("openvino")})
