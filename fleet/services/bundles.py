"""Bundles that may be rolled out: a name and version for one digest, all of whose bytes are in the registry."""

from __future__ import annotations

from typing import Protocol

from edge_contracts import names
from edge_contracts.bundle import Bundle, parse_bundle
from edge_contracts.errors import ContractError
from fleet.domain.catalogue import RegisteredBundle
from fleet.errors import AlreadyThere, InvalidRequest, NotFound, UnsignedBundle
from fleet.services.clock import NowMs
from fleet.store.unit_of_work import Store


class Blobs(Protocol):
    """What this room needs of the registry."""

    def read_small(self, digest: str) -> bytes:
        """Raises NotFound."""

    def size(self, digest: str) -> int | None:
        """Bytes of the blob; None when it is not there."""


class Bundles:
    """The catalogue."""

    def __init__(self, store: Store, blobs: Blobs, now_ms: NowMs) -> None:
        self._store = store
        self._blobs = blobs
        self._now_ms = now_ms

    def register(self, name: str, digest: str, *, allow_unsigned: bool) -> RegisteredBundle:
        """Registers what was pushed, once; again with the same digest it returns the same.

        Raises InvalidRequest (not a bundle, another name, a blob missing or of another size), UnsignedBundle, and
        AlreadyThere when the version stands for another digest.
        """
        bundle = self._parse(digest)
        if bundle.spec.name != name:
            raise InvalidRequest("name", f"the bundle calls itself {bundle.spec.name!r}")
        label = f"{name} {bundle.spec.version}"
        if not allow_unsigned:
            raise UnsignedBundle(label)
        sizes = bundle.blobs()
        for blob, size in sizes.items():
            held = self._blobs.size(blob)
            if held != size:
                state = "is missing" if held is None else f"has {held} bytes"
                raise InvalidRequest(
                    "digest", f"blob {blob} of {label} {state}, {size} bytes are needed: push it first"
                )
        record = RegisteredBundle(
            name=name,
            version=bundle.spec.version,
            digest=digest,
            signed=False,
            variants=[variant.name for variant in bundle.variants],
            size_bytes=sum(sizes.values()),
            registered_ms=self._now_ms(),
        )
        with self._store.write() as work:
            known = work.bundles.get(record.name, record.version, lock=True)
            if known is not None and known.digest != digest:
                raise AlreadyThere(label, f"stands for {known.digest}: give changed bytes another version")
            if known is not None:
                return known
            work.bundles.save([record])
            work.commit()
        return record

    def get(self, name: str, version: str) -> RegisteredBundle:
        """Raises NotFound."""
        with self._store.read() as work:
            found = work.bundles.get(name, version)
        if found is None:
            raise NotFound("bundle", f"{name} {version}")
        return found

    def contents(self, name: str, version: str) -> tuple[RegisteredBundle, Bundle]:
        """The record and what the bundle says of itself. Raises NotFound, InvalidRequest (its blobs are gone)."""
        record = self.get(name, version)
        return record, self._parse(record.digest)

    def all(self) -> list[RegisteredBundle]:
        """Newest first."""
        with self._store.read() as work:
            return work.bundles.find(newest_by="registered_ms")

    def _parse(self, digest: str) -> Bundle:
        try:
            names.digest(digest)
            return parse_bundle(self._blobs.read_small(digest), self._blobs.read_small)
        except NotFound as error:
            raise InvalidRequest("digest", f"{error.name} is not in the registry: push it first") from error
        except ContractError as error:
            raise InvalidRequest("digest", str(error)) from error
