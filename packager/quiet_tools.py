"""Runtimes and converters report to their makers unless told not to: a build says nothing to anybody.

- onnxruntime 1.32 on Linux opens a telemetry session at import: a device id and a database under
  XDG_CACHE_HOME/Microsoft/DeveloperTools/.onnxruntime, ``.ses`` in the temporary folder. ORT_DISABLE_TELEMETRY=1 in the
  environment before the import prevents it.
- openvino and nncf import ``openvino_telemetry`` (an id and counts under HOME/intel, sent over the network) and do
  without where it cannot be imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLES = {"ORT_DISABLE_TELEMETRY": "1"}
UNWANTED_MODULE = "openvino_telemetry"


def silence() -> None:
    """For this process and what it starts; call before a tool is imported. Keeps a variable that the user has set."""
    os.environ.update(silenced(os.environ))
    sys.modules[UNWANTED_MODULE] = None  # type: ignore[assignment]


def silenced(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with which a process of ours starts."""
    return {**VARIABLES, **environ}
