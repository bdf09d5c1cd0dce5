"""What is stored: each kind of record with its key, and which of its fields can be asked for."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from fleet.domain.catalogue import RegisteredBundle
from fleet.domain.device import Device
from fleet.domain.history import LatencyMinute
from fleet.domain.identity import Credential, StoredToken
from fleet.domain.rollout import Rollout, Target
from fleet.domain.wish import Wish
from fleet.store.stored_event import StoredEvent


@dataclass(frozen=True)
class Kind:
    """``name`` is the table's; ``key`` its primary key; ``indexes`` further fields that are searched."""

    name: str
    struct: type[msgspec.Struct]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("devices", Device, ("id",)),
        Kind("credentials", Credential, ("device",)),
        Kind("tokens", StoredToken, ("id",), (("secret_sha256",),)),
        Kind("bundles", RegisteredBundle, ("name", "version"), (("digest",),)),
        Kind("rollouts", Rollout, ("id",), (("state",),)),
        Kind("targets", Target, ("rollout", "device", "kind", "attempt"), (("device",), ("state",))),
        Kind("wishes", Wish, ("device", "model")),
        Kind("latencies", LatencyMinute, ("device", "model", "digest", "stage", "minute_ms"), (("minute_ms",),)),
        Kind("events", StoredEvent, ("device", "id"), (("device", "at_ms"), ("received_ms",))),
    )
}


@dataclass(frozen=True)
class Field:
    """A field and how it is stored: "text", "integer", "real", "boolean" as it is, "json" encoded.

    ``load`` turns a stored value, which is not None, into the field's; None: it is the same.
    """

    name: str
    storage: str
    nullable: bool
    load: Callable[[Any], Any] | None


@lru_cache(maxsize=64)
def fields(struct: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of a record in order, with how each is stored."""
    hints = typing.get_type_hints(struct)
    return tuple(_field(name, hints[name]) for name in struct.__struct_fields__)


def plain(value: Any) -> Any:
    """A plain field's value as a database takes it."""
    return value.value if isinstance(value, enum.Enum) else value


def _field(name: str, hint: Any) -> Field:
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kinds = [part for part in parts if part is not type(None)]
    kind = kinds[0] if len(kinds) == 1 else object
    storage = _storage(kind)
    return Field(name, storage, len(kinds) < len(parts), _loader(storage, kind, hint))


def _loader(storage: str, kind: Any, hint: Any) -> Callable[[Any], Any] | None:
    if storage == "json":
        return msgspec.json.Decoder(hint).decode
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    return {"boolean": bool, "real": float}.get(storage)


def _storage(kind: Any) -> str:
    if not isinstance(kind, type):
        return "json"
    if issubclass(kind, bool):
        return "boolean"
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, int):
        return "integer"
    return "real" if issubclass(kind, float) else "json"
