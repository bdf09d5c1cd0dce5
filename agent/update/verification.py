"""What the device trusts. A VerifiedBundle is made here only: nothing else is ever laid out or opened.

Rules, in order:
1. admit(): the policy allows this digest (it is signed, or unsigned bundles are allowed) before a byte is fetched.
2. verify(): the index has that digest; name and version are those of the wish; every blob needed has its own digest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent.errors import UpdateError
from agent.update.records import Wish
from agent.update.slots import Slots
from edge_contracts.bundle import Bundle, Variant, parse_bundle
from edge_contracts.errors import ContractError

_SEAL = object()


class VerifiedBundle:
    """A bundle whose bytes on this device are those that its digest names, and which the policy admits."""

    def __init__(self, seal: object, bundle: Bundle, index_bytes: bytes, variants: list[Variant], signed: bool) -> None:
        if seal is not _SEAL:
            raise TypeError("a VerifiedBundle is only made by agent.update.verification.verify")
        self.bundle = bundle
        self.index_bytes = index_bytes
        self.variants = variants
        self.signed = signed


class Trust(Protocol):
    """Who vouches for a bundle."""

    def is_signed(self, name: str, digest: str) -> bool:
        """Whether valid metadata name this digest as a version of ``name``. Raises UpdateError (unsigned, clock)."""


class NoTrust:
    """No signing keys are configured: every bundle is unsigned."""

    def is_signed(self, name: str, digest: str) -> bool:
        del name, digest
        return False


def admit(name: str, wish: Wish, trust: Trust, allow_unsigned: bool) -> bool:
    """Whether the bundle is signed. Raises UpdateError "unsigned" when it is not and that is not allowed."""
    signed = wish.digest is not None and trust.is_signed(name, wish.digest)
    if not signed and not (allow_unsigned or wish.policy.allow_unsigned):
        raise UpdateError("unsigned", f"{name} {wish.version} is unsigned: allow that with --allow-unsigned, or with "
                          "allow_unsigned in the rollout's policy")  # fmt: skip
    return signed


def verify(
    slots: Slots, name: str, wish: Wish, signed: bool, runnable: Callable[[Bundle], list[Variant]]
) -> VerifiedBundle:
    """Check everything of the wish's bundle that the variants ``runnable`` picks need. Raises UpdateError "digest"."""
    assert wish.digest is not None
    try:
        index_bytes = slots.read(wish.digest)
        bundle = parse_bundle(index_bytes, slots.read)
        check_identity(bundle, name, wish)
        variants = runnable(bundle)
        for blob, size in needed_blobs(bundle, variants).items():
            slots.check(blob, size)
    except ContractError as error:
        raise UpdateError("digest", str(error)) from error
    return VerifiedBundle(_SEAL, bundle, index_bytes, variants, signed)


def check_identity(bundle: Bundle, name: str, wish: Wish) -> None:
    """The bundle says it is what was wished for. Raises UpdateError "digest": somebody mixed something up."""
    if bundle.spec.name != name:
        raise UpdateError("digest", f"bundle {wish.digest} is {bundle.spec.name!r}, {name!r} was wished for")
    if wish.version is not None and bundle.spec.version != wish.version:
        raise UpdateError("digest", f"bundle {wish.digest} is version {bundle.spec.version}, {wish.version} expected")


def needed_blobs(bundle: Bundle, variants: list[Variant]) -> dict[str, int]:
    """Blobs with sizes that these variants need: metadata, goldens, weights."""
    sizes = {blob.digest: blob.size for blob in [*bundle.metadata_blobs, bundle.goldens]}
    sizes.update({file.digest: file.size for variant in variants for file in variant.files})
    return sizes
