"""OUT.report.json: what was measured while building. It names this machine's versions and times, so it stays outside
the bundle."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import msgspec

from packager.pipeline import BuildResult
from packager.variant_build import RouteOutcome


def report(result: BuildResult) -> dict[str, Any]:
    """As a JSON document."""
    return {
        "name": result.spec.name,
        "version": result.spec.version,
        "digest": result.digest,
        "size_bytes": result.size_bytes,
        "source": {
            "digest": result.source.digest, "format": result.source.format, "weight_bytes": result.source.weight_bytes,
            "opset": result.source.opset, "ir_version": result.source.ir_version, "notes": result.source.notes,
        },
        "python": platform.python_version(),
        "machine": platform.machine(),
        "timings_s": {stage: round(seconds, 3) for stage, seconds in result.timings_s.items()},
        "variants": [_variant(outcome) for outcome in result.outcomes],
    }  # fmt: skip


def write_report(result: BuildResult, bundle: Path) -> Path:
    """Beside the bundle: ``NAME.mindie`` -> ``NAME.report.json``; through a temporary file."""
    path = bundle.with_name(f"{bundle.name.removesuffix('.mindie')}.report.json")
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(report(result)), indent=2) + b"\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _variant(outcome: RouteOutcome) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": outcome.route.name,
        "converter": outcome.route.converter,
        "tools": outcome.tools,
        "runtime_version": outcome.runtime_version,
        "timings_s": {stage: round(seconds, 3) for stage, seconds in outcome.timings_s.items()},
    }
    if outcome.tried:
        told["tried"] = outcome.tried
    if outcome.spec is not None:
        told.update(size_bytes=outcome.spec.size_bytes, notes=outcome.spec.notes, accuracy=outcome.spec.accuracy)
    if outcome.left_out is not None:
        told.update(left_out=outcome.left_out.reason, log=list(outcome.log))
    return told
