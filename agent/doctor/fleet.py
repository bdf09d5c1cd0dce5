"""Findings about the connection to the fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from agent.doctor.facts import DoctorFacts
from agent.doctor.finding import Finding, fault


def not_connected(facts: DoctorFacts) -> Iterator[Finding]:
    """An enrolled device that its fleet cannot reach, be it refused or unable to reach the broker."""
    link = facts.link
    if link is None or link.connected or link.detail is None:
        return
    if "no longer accepts this identity" in link.detail:
        yield fault("fleet-refuses", link.detail, "mindie enroll --force --token-file FILE, then restart mindie run")
    else:
        yield fault(
            "fleet-not-connected", f"this device is enrolled and not connected to its fleet: {link.detail}",
            "see that `mindfleet serve` runs and that its MQTT port is open to this device",
        )  # fmt: skip


CHECKS = (not_connected,)
