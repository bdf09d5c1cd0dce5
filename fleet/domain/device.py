"""A device as the fleet knows it. Pure.

Presence follows three rules: a session is dead once its death came, in whatever order birth and death arrive; a death
of another session than the current birth's says nothing about the current one; what the broker had retained is no sign
of life by itself.
"""

from __future__ import annotations

import enum

import msgspec

from edge_contracts.capabilities import Capabilities
from edge_contracts.evidence import ChoiceEvidence
from edge_contracts.messages import BundleRef, Reported, ReportedModel


class DeviceState(str, enum.Enum):
    """Only ACTIVE devices may connect."""

    ACTIVE = "active"
    QUARANTINED = "quarantined"
    DECOMMISSIONED = "decommissioned"


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """``session``: of the newest birth; ``dead_session``: the newest session known to have ended; -1: none yet."""

    session: int = -1
    dead_session: int = -1
    last_seen_ms: int | None = None

    @property
    def online(self) -> bool:
        return self.session > self.dead_session


def after_birth(presence: Presence, session: int, at_ms: int, *, retained: bool) -> Presence:
    """A birth came. Births of older sessions are ignored; a session that is known to be dead stays dead."""
    if session < presence.session:
        return presence
    seen_ms = presence.last_seen_ms if retained and session <= presence.dead_session else at_ms
    return msgspec.structs.replace(presence, session=session, last_seen_ms=seen_ms)


def after_status(presence: Presence, online: bool, session: int, at_ms: int) -> Presence:
    """A status came. A death counts for its own session and for those before it, never for a later one."""
    if online:
        return seen(presence, at_ms) if session == presence.session and presence.online else presence
    return msgspec.structs.replace(presence, dead_session=max(presence.dead_session, session))


def seen(presence: Presence, at_ms: int) -> Presence:
    """A live message came from the device."""
    return msgspec.structs.replace(presence, last_seen_ms=max(at_ms, presence.last_seen_ms or 0))


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """From the newest telemetry. ``to_ms``: the end of what it covered, by the device's clock."""

    to_ms: int = -1
    rss_mb: float | None = None
    cpu_percent: float | None = None
    temp_c: float | None = None
    throttled: bool | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence with which a device chose how to serve the bundle ``digest``."""

    digest: str
    evidence: ChoiceEvidence


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One enrolled device.

    reported: the whole truth as it last said it. choices: by model, of what serves, also when a later bundle failed
    and the report speaks of that. desired_version: of the newest wish; 0: there never was one.
    """

    id: str
    site: str
    enrolled_ms: int
    labels: dict[str, str] = {}
    state: DeviceState = DeviceState.ACTIVE
    fingerprint: str | None = None
    presence: Presence = Presence()
    capabilities: Capabilities | None = None
    agent_version: str | None = None
    serving_port: int | None = None
    reported: Reported | None = None
    choices: dict[str, Choice] = {}
    vitals: Vitals = Vitals()
    desired_version: int = 0

    @property
    def lags(self) -> bool:
        """The device has not read the newest wish, as far as it said."""
        read = self.reported.desired_version if self.reported is not None else None
        return self.state is DeviceState.ACTIVE and (read or 0) < self.desired_version

    @property
    def online(self) -> bool:
        return self.presence.online and self.state is DeviceState.ACTIVE

    def serving(self, model: str) -> BundleRef | None:
        """The bundle of ``model`` that really serves, as reported; None when none does."""
        entry = self.reported.models.get(model) if self.reported is not None else None
        if entry is None or entry.active is None:
            return None
        return BundleRef(version=entry.active.version, digest=entry.active.digest)


def newer_report(device: Device, reported: Reported) -> bool:
    """Whether ``reported`` says something new: versions grow, so duplicates and late arrivals are told apart."""
    return device.reported is None or reported.version > device.reported.version


def with_report(device: Device, reported: Reported) -> Device:
    """The device after a newer report."""
    choices = {name: choice for name, choice in device.choices.items() if name in reported.models}
    for name, entry in reported.models.items():
        active, evidence = entry.active, entry.evidence
        if active is None:
            choices.pop(name, None)
        elif evidence is not None and evidence.chosen.variant == active.variant and _is_of(entry, active.digest):
            choices[name] = Choice(digest=active.digest, evidence=evidence)
        elif name in choices and choices[name].digest != active.digest:
            del choices[name]
    return msgspec.structs.replace(device, reported=reported, choices=choices)


def _is_of(entry: ReportedModel, digest: str) -> bool:
    """Whether the evidence in ``entry`` is about ``digest``: it belongs to the deployment that was attempted last."""
    return entry.attempted is None or entry.attempted.digest == digest
