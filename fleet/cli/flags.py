"""What the server says about a field of a request, in the words of the command line. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_FIELD = re.compile(r"(?P<field>[a-z_]+(\[[0-9]+\])?(\.[a-z0-9_]+)*): ")
_FLAGS: Mapping[str, str] = {
    "size": "--wave", "soak_s": "--wave-soak-s", "policy.soak_s": "--soak-s", "policy.race_budget_s": "--race-budget-s",
    "selector.labels": "--label", "selector.devices": "--device", "selector.site": "--site", "uses": "--uses",
    "expires_s": "--expires-s", "site": "--site", "labels": "--label", "server": "--device-server",
    "max_in_flight": "--max-in-flight", "success_threshold_pct": "--success-threshold-pct",
    "error_threshold_pct": "--error-threshold-pct", "min_executed": "--min-executed", "denominator": "--denominator",
    "success_action": "--success-action", "error_action": "--error-action",
    "straggler_after_s": "--straggler-after-s", "waves": "--wave", "bundle": "--bundle", "version": "--version",
    "name": "--name",
}  # fmt: skip


def in_flags(error: Exception) -> str:
    """The error's line, with the flag in place of the field where it begins with a field that a flag sets."""
    line = str(error)
    found = _FIELD.match(line)
    flag = _flag(found["field"]) if found is not None else None
    return f"{flag}: {line[found.end() :]}" if found is not None and flag is not None else line


def _flag(field: str) -> str | None:
    """``waves[0].size`` is what a flag for every wave sets."""
    within = field.split("].", 1)[-1]
    return _FLAGS.get(field) or _FLAGS.get(within)
