"""All checks over the facts. Pure."""

from __future__ import annotations

from agent.doctor import device, fleet, installation, performance
from agent.doctor.facts import DoctorFacts
from agent.doctor.finding import Finding, Severity

CHECKS = (*installation.CHECKS, *device.CHECKS, *fleet.CHECKS, *performance.CHECKS)


def diagnose(facts: DoctorFacts) -> list[Finding]:
    """Faults first, each kind in the order of the checks."""
    found = [finding for check in CHECKS for finding in check(facts)]
    return sorted(found, key=lambda finding: finding.severity is not Severity.FAULT)


def has_fault(findings: list[Finding]) -> bool:
    """Whether something needs fixing."""
    return any(finding.severity is Severity.FAULT for finding in findings)
