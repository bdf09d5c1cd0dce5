"""Paths of the data plane. Pure.

GET  /v2   /v2/health/live   /v2/health/ready   /v2/models/stats   /metrics
GET  /v2/models/NAME[/versions/VERSION][/ready|/config|/stats]
POST /v2/models/NAME[/versions/VERSION]/infer   /v2/repository/index
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote_to_bytes

from agent.errors import RequestRefused

GET = (b"GET", b"HEAD")
POST = (b"POST",)


class Verb(Enum):
    """What is asked. The value says by which methods."""

    SERVER = "server"
    LIVE = "live"
    READY = "ready"
    STATISTICS = "statistics"
    INDEX = "index"
    METRICS = "metrics"
    MODEL = "model"
    MODEL_READY = "model ready"
    MODEL_CONFIGURATION = "model configuration"
    MODEL_STATISTICS = "model statistics"
    INFER = "infer"

    @property
    def methods(self) -> tuple[bytes, ...]:
        """The methods it takes."""
        return POST if self in (Verb.INFER, Verb.INDEX) else GET


@dataclass(frozen=True)
class Target:
    """What a path stands for. ``version`` None: whichever is served."""

    verb: Verb
    methods: tuple[bytes, ...]
    name: str = ""
    version: str | None = None


_PLAIN = {
    b"/v2": Verb.SERVER,
    b"/v2/health/live": Verb.LIVE,
    b"/v2/health/ready": Verb.READY,
    b"/v2/models/stats": Verb.STATISTICS,
    b"/v2/repository/index": Verb.INDEX,
    b"/metrics": Verb.METRICS,
}
_OF_MODEL = {
    (): Verb.MODEL,
    (b"ready",): Verb.MODEL_READY,
    (b"config",): Verb.MODEL_CONFIGURATION,
    (b"stats",): Verb.MODEL_STATISTICS,
    (b"infer",): Verb.INFER,
}


def parse_path(path: bytes) -> Target:
    """What ``path`` (without its query) stands for. Raises RequestRefused (404)."""
    trimmed = path.rstrip(b"/")
    plain = _PLAIN.get(trimmed)
    if plain is not None:
        return Target(plain, plain.methods)
    parts = trimmed.split(b"/")
    if len(parts) > 3 and parts[:3] == [b"", b"v2", b"models"] and parts[3]:
        rest, version = parts[4:], None
        if rest[:1] == [b"versions"] and len(rest) > 1:
            version, rest = _text(rest[1]), rest[2:]
        verb = _OF_MODEL.get(tuple(rest))
        if verb is not None:
            return Target(verb, verb.methods, _text(parts[3]), version)
    raise RequestRefused(404, f"no such path: {shown(path)}; the protocol begins at /v2")


def shown(path: bytes) -> str:
    """A path in a message."""
    return path[:120].decode("utf-8", "backslashreplace")


def _text(part: bytes) -> str:
    return unquote_to_bytes(part).decode("utf-8", "replace")
