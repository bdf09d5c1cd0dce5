"""A bundle as the server knows it."""

from __future__ import annotations

import msgspec


class RegisteredBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A name and version that stands for one digest, for ever. ``variants``: their names; size: all blobs together."""

    name: str
    version: str
    digest: str
    signed: bool
    variants: list[str]
    size_bytes: int
    registered_ms: int
