"""Runtimes report to their makers unless told not to: a device says nothing to anybody but its fleet.

onnxruntime 1.32 on Linux opens a telemetry session at import (it writes ``.ses`` to the temporary folder);
ORT_DISABLE_TELEMETRY=1 in the environment before the import prevents it, `disable_telemetry_events()` does not.
"""

from __future__ import annotations

import os

VARIABLES = {"ORT_DISABLE_TELEMETRY": "1"}


def silence() -> None:
    """Call before a runtime is imported. Sets what the user has not set."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
