"""Who may join and who has joined: enrolment tokens and device credentials as they are kept (no secret in clear)."""

from __future__ import annotations

import hashlib

import msgspec


class StoredToken(msgspec.Struct, frozen=True, kw_only=True):
    """``secret_sha256``: of a random secret of 256 bits, so a plain hash is enough. expires_ms None: never."""

    id: str
    secret_sha256: str
    site: str
    uses_left: int
    created_ms: int
    expires_ms: int | None = None
    labels: dict[str, str] = {}


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """What verifies a device's password; ``verifiers`` is JSON of fleet.broker.verifiers.Verifiers."""

    device: str
    site: str
    verifiers: str


def secret_hash(secret: str) -> str:
    """How a token's secret is looked up."""
    return hashlib.sha256(secret.encode()).hexdigest()


def usable(token: StoredToken, now_ms: int) -> bool:
    """Whether it still lets a device in."""
    return token.uses_left > 0 and (token.expires_ms is None or now_ms < token.expires_ms)
