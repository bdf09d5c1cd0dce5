"""What the device remembers of its models: one value, written whole before every act (agent.update.journal)."""

from __future__ import annotations

import msgspec

from edge_contracts.deployment import IN_FLIGHT, DeploymentState
from edge_contracts.evidence import ChoiceEvidence, OptionValue
from edge_contracts.messages import Policy

FORMAT = 1
FLEET = "fleet"
LOCAL = "local"


class Wish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody wants a model to be. ``digest`` None: no bundle at all. ``source``: a bundle file, or the fleet."""

    deployment: str
    version: str | None
    digest: str | None
    policy: Policy = Policy()
    source: str | None = None
    origin: str = FLEET
    why: str | None = None
    automatic: bool = False


class Installed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bundle that was committed, with the choice that was proven."""

    deployment: str
    version: str
    digest: str
    variant: str
    runtime: str
    precision: str
    target: str = "cpu"
    options: dict[str, OptionValue] = {}
    provider: str | None = None
    signed: bool = False
    slo_p95_ms: float | None = None
    origin: str = FLEET
    committed_ms: int = 0
    evidence: ChoiceEvidence | None = None


class Deployment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One deployment. ``restores``: it goes back to a pinned bundle, which needs no new proof."""

    wish: Wish
    state: DeploymentState
    queued_ms: int
    since_ms: int
    reason: str | None = None
    error_code: str | None = None
    restores: bool = False
    power_returns: int = 0
    evidence: ChoiceEvidence | None = None

    @property
    def in_flight(self) -> bool:
        """Not yet ended."""
        return self.state in IN_FLIGHT


class ModelState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model name. ``wished``: the fleet's last deployment for it, done or not, so that it is done once.

    ``fault``: why the active bundle does not serve although it should. ``regressed``: what got worse after commit.
    """

    deployment: Deployment | None = None
    active: Installed | None = None
    last_good: Installed | None = None
    wished: str | None = None
    fault: str | None = None
    regressed: str | None = None

    @property
    def healthy(self) -> bool:
        """What is active serves as it was proven."""
        if self.fault is not None:
            return False
        if self.regressed is None or self.active is None:
            return True
        return not self.regressed.startswith(f"{self.active.deployment}: ")


class DeviceState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it. ``version`` grows with every change. ``clean``: the agent was stopped, not cut off."""

    format: int = FORMAT
    version: int = 0
    desired_version: int | None = None
    models: dict[str, ModelState] = {}
    last_changed: str | None = None
    clean: bool = True

    def model(self, name: str) -> ModelState:
        """The state of a model; an empty one when there is none."""
        return self.models.get(name, ModelState())


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A deployment that ended. ``replaced``: the version that was active before."""

    at_ms: int
    model: str
    deployment: str
    version: str | None
    digest: str | None
    state: DeploymentState
    origin: str = FLEET
    reason: str | None = None
    error_code: str | None = None
    replaced: str | None = None
    variant: str | None = None
