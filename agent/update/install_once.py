"""Install one bundle file and wait for its end: `mindie install` and `mindie serve` without a daemon, and the daemon
for `mindie install`. It is an ordinary deployment of the same machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.errors import UpdateError
from agent.inference.bundle_folder import BundleFolder
from agent.update.executor import Executor
from agent.update.inbox import Cancel, WishFor
from agent.update.records import LOCAL, DeviceState, Installed, Wish
from agent.update.slots import Slots
from edge_contracts.archive import open_bundle
from edge_contracts.bundle import Bundle
from edge_contracts.deployment import DeploymentState
from edge_contracts.evidence import ChoiceEvidence
from edge_contracts.messages import Policy


@dataclass(frozen=True)
class InstalledBundle:
    """A bundle that is active now, where it lies, and the evidence of the choice."""

    name: str
    installed: Installed
    folder: BundleFolder
    evidence: ChoiceEvidence | None


def check_file(archive: Path) -> Bundle:
    """Read the structure of a bundle file, no weights. Raises MalformedBundle, OSError: both name the file."""
    return open_bundle(archive).bundle


def wish_for_file(archive: Path, policy: Policy, deployment: str) -> WishFor:
    """The wish to have the bundle of that file. Raises MalformedBundle, OSError."""
    path = archive.absolute()
    bundle = check_file(path)
    wish = Wish(
        deployment=deployment, version=bundle.spec.version, digest=bundle.digest, policy=policy, source=str(path),
        origin=LOCAL,
    )  # fmt: skip
    return WishFor(bundle.spec.name, wish)


def install(
    archive: Path, *, executor: Executor, slots: Slots, policy: Policy, new_id: Callable[[], str]
) -> InstalledBundle:
    """Run the deployment to its end on this thread; the caller holds DATA/lock and has opened the executor.

    Raises UpdateError with code and reason when it does not end committed; MalformedBundle, OSError for the file.
    """
    message = wish_for_file(archive, policy, f"local-{new_id()}")
    executor.submit(message)
    try:
        executor.settle()
    except KeyboardInterrupt:
        executor.submit(Cancel(message.wish.deployment))
        executor.settle()
        raise
    installed = committed_or_raise(executor.state, message.name, message.wish.deployment)
    folder = slots.folder(message.name, installed.digest)
    return InstalledBundle(message.name, installed, folder, installed.evidence)


def committed_or_raise(state: DeviceState, name: str, deployment: str) -> Installed:
    """What the deployment made active. Raises UpdateError when it ended otherwise, or has been replaced."""
    model = state.model(name)
    last = model.deployment
    if last is None or last.wish.deployment != deployment:
        raise UpdateError("superseded", f"{name}: a newer wish came before this one was done")
    if last.in_flight:
        raise UpdateError("canceled", f"{name}: stopped while {last.state.value}; it goes on at the next start")
    if last.state is not DeploymentState.COMMITTED or model.active is None:
        raise UpdateError(last.error_code or "internal", f"{name}: {last.state.value}: {last.reason or 'no reason'}")
    return model.active
