"""Names that stand in topics, paths and registries, checked once where they come in."""

from __future__ import annotations

import re

from edge_contracts.errors import MalformedMessage

_DEVICE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BUNDLE = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_VARIANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SEMVER = re.compile(
    r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

MAX_BUNDLE_NAME = 64
MAX_VERSION = 100
"""Characters: NAME-VERSION is a file's name, and a version is a registry's tag."""


def device_name(text: str, what: str = "device") -> str:
    """A device id, site or command id: one MQTT topic level that is also a NATS token (no dot, slash, wildcard).

    Raises MalformedMessage naming ``what``.
    """
    if not _DEVICE.fullmatch(text):
        raise MalformedMessage(what, f"{text[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ -")
    return text


def bundle_name(text: str) -> str:
    """A bundle's name: also an OCI repository name, hence lower case. Raises MalformedMessage."""
    if len(text) > MAX_BUNDLE_NAME or not _BUNDLE.fullmatch(text):
        raise MalformedMessage("name", f"{text[:80]!r} is not lower-case letters, digits and single . _ - between them")
    return text


def variant_name(text: str) -> str:
    """A variant's name: a device lays the variant out in a folder of that name. Raises MalformedMessage."""
    if not _VARIANT.fullmatch(text):
        raise MalformedMessage(
            "variant name", f"{text[:80]!r} is not 1 to 100 of A-Z a-z 0-9 . _ -, a letter or digit first"
        )
    return text


def semantic_version(text: str) -> str:
    """A SemVer 2.0.0 version, returned unchanged. Raises MalformedMessage."""
    if len(text) > MAX_VERSION:
        raise MalformedMessage("version", f"{text[:80]!r}... has {len(text)} characters, at most {MAX_VERSION}")
    if not _SEMVER.fullmatch(text):
        raise MalformedMessage("version", f"{text[:80]!r} is not MAJOR.MINOR.PATCH (semver.org), for example 1.4.0")
    return text


def version_precedence(text: str) -> tuple[object, ...]:
    """Sort key with SemVer 2.0.0 precedence (section 11): a pre-release sorts before its release."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise MalformedMessage("version", f"{text[:80]!r} is not MAJOR.MINOR.PATCH")
    core = tuple(int(part) for part in match.group(1, 2, 3))
    if match.group(4) is None:
        return (*core, 1)
    identifiers = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in match.group(4).split("."))
    return (*core, 0, identifiers)


def digest(text: str, what: str = "digest") -> str:
    """A content digest ``sha256:<64 hex>``, returned unchanged. Raises MalformedMessage naming ``what``."""
    if not _DIGEST.fullmatch(text):
        raise MalformedMessage(what, f"{text[:90]!r} is not sha256: followed by 64 lower-case hex digits")
    return text
