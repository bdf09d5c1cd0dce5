"""A converter without tools: copies the source, or fails as it is told. For tests of what stands around converters.

Options: ``fail`` refuse with this reason; ``die`` end the process by this signal number; ``damage`` xor the last bytes.
"""

from __future__ import annotations

import os
from pathlib import Path

from packager.converters.converter import ConversionJob, Converted, Needs, Progress
from packager.errors import ConverterError


class Stub:
    """See the module."""

    name = "stub"
    needs = Needs()
    spawns_own_process = False

    def convert(self, job: ConversionJob, progress: Progress) -> Converted:
        """Raises ConverterError with the option ``fail``."""
        progress("copying")
        if "fail" in job.options:
            raise ConverterError(self.name, job.options["fail"])
        if "die" in job.options:
            os.kill(os.getpid(), int(job.options["die"]))
        source, out = Path(job.model), Path(job.out)
        out.mkdir(parents=True, exist_ok=True)
        content = source.read_bytes()
        if "damage" in job.options:
            content = content[:-64] + bytes(byte ^ 0x5A for byte in content[-64:])
        (out / source.name).write_bytes(content)
        return Converted(entry=source.name, tools={"stub": "1"})
