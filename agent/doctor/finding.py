"""What the doctor says: one thing that is wrong or could be better, and the way out."""

from __future__ import annotations

import enum

import msgspec


class Severity(str, enum.Enum):
    """FAULT: something does not work or will not; exit status 1. HINT: it works and could be better."""

    FAULT = "fault"
    HINT = "hint"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """``code``: a stable word. ``text``: what was found. ``fix``: what to do, a command where there is one."""

    code: str
    severity: Severity
    text: str
    fix: str


def fault(code: str, text: str, fix: str) -> Finding:
    """Something to be fixed."""
    return Finding(code=code, severity=Severity.FAULT, text=text, fix=fix)


def hint(code: str, text: str, fix: str) -> Finding:
    """Something to be had."""
    return Finding(code=code, severity=Severity.HINT, text=text, fix=fix)
