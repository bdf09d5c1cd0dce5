"""A bundle laid out on disk for runtimes to open: what selection, trials and the engine read.

    FOLDER/index.json            the bundle index, its exact bytes (its sha256 is the bundle's digest)
    FOLDER/metadata/<hex>        every JSON blob the index leads to
    FOLDER/goldens.bin           the goldens blob
    FOLDER/variants/<name>/...   each fetched variant's files under their own names

``lay_out`` makes one from any source of blobs (a bundle file, a device's blob store) and checks every byte on the way.
Nothing in the folder is written after that.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edge_contracts import oci
from edge_contracts.bundle import Bundle, Variant, parse_bundle
from edge_contracts.errors import DigestMismatch, MalformedBundle


class BlobSource(Protocol):
    """Where a bundle's blobs come from; ``edge_contracts.archive.BundleArchive`` is one."""

    @property
    def index_bytes(self) -> bytes:
        """The exact bytes of the bundle's index."""

    @property
    def bundle(self) -> Bundle:
        """The parsed bundle of that index."""

    def blob_chunks(self, digest: str) -> Iterator[bytes]:
        """The blob in chunks; raises DigestMismatch at the end when the bytes differ from the digest."""


@dataclass(frozen=True)
class BundleFolder:
    """A parsed bundle and the folder that holds its files."""

    folder: Path
    bundle: Bundle

    @property
    def goldens_file(self) -> Path:
        """The goldens blob (edge_contracts.golden)."""
        return self.folder / "goldens.bin"

    def variant_folder(self, name: str) -> Path:
        """Where the files of a variant lie; it may be absent when the variant was not fetched."""
        return self.folder / "variants" / name

    def variants_present(self) -> list[Variant]:
        """Variants whose entry file is here."""
        return [v for v in self.bundle.variants if (self.variant_folder(v.name) / v.spec.entry).is_file()]


def open_bundle_folder(folder: Path) -> BundleFolder:
    """Read index and metadata. Raises MalformedBundle naming the folder; OSError becomes MalformedBundle too."""

    def read_blob(digest: str) -> bytes:
        return (folder / "metadata" / digest.removeprefix("sha256:")).read_bytes()

    try:
        return BundleFolder(folder, parse_bundle((folder / "index.json").read_bytes(), read_blob))
    except OSError as error:
        raise MalformedBundle(str(folder), f"is not a laid-out bundle: {error.strerror}") from error


def lay_out(source: BlobSource, folder: Path, variants: Iterable[str] | None = None) -> BundleFolder:
    """Write the bundle to ``folder`` (which must not exist) with the named variants, all of them when None.

    It is built beside ``folder``, synced and renamed: ``folder`` appears whole or not at all, also over a power cut.
    Raises DigestMismatch or MalformedBundle for wrong or missing blobs, FileExistsError, OSError (disk full).
    """
    if folder.exists():
        raise FileExistsError(f"{folder} exists already")
    bundle = source.bundle
    wanted = {variant.name for variant in bundle.variants} if variants is None else set(variants)
    unknown = sorted(wanted - {variant.name for variant in bundle.variants})
    if unknown:
        raise MalformedBundle(bundle.spec.name, f"has no variant {unknown[0]!r}")
    building = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(building, ignore_errors=True)
    try:
        _fill(building, source, [variant for variant in bundle.variants if variant.name in wanted])
        building.rename(folder)
        _sync_folder(folder.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return BundleFolder(folder, bundle)


def _fill(folder: Path, source: BlobSource, variants: list[Variant]) -> None:
    metadata, bundle = folder / "metadata", source.bundle
    metadata.mkdir(parents=True)
    if oci.sha256_digest(source.index_bytes) != bundle.digest:
        raise DigestMismatch(bundle.spec.name, "the bundle index has changed bytes")
    _write(folder / "index.json", iter([source.index_bytes]), len(source.index_bytes))
    for blob in {blob.digest: blob for blob in bundle.metadata_blobs}.values():
        _write(metadata / blob.digest.removeprefix("sha256:"), source.blob_chunks(blob.digest), blob.size)
    _write(folder / "goldens.bin", source.blob_chunks(bundle.goldens.digest), bundle.goldens.size)
    for variant in variants:
        place = folder / "variants" / variant.name
        place.mkdir(parents=True)
        for file in variant.files:
            _write(place / file.path, source.blob_chunks(file.digest), file.size)
        _sync_folder(place)
    _sync_folder(metadata)
    _sync_folder(folder)


def _write(path: Path, chunks: Iterator[bytes], size: int) -> None:
    with path.open("xb") as file:
        written = sum(file.write(chunk) for chunk in chunks)
        if written != size:
            raise DigestMismatch(path.name, f"{written} bytes, {size} expected")
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
