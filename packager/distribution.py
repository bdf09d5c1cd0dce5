"""Bundles to and from an OCI registry: blobs first, manifests next, the index last, so that a name never leads to less
than everything; what the other side holds already is not sent again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edge_contracts import oci
from edge_contracts.archive import BundleArchive
from edge_contracts.archive_writer import write_bundle
from edge_contracts.bundle import Bundle, check_blob, parse_bundle
from packager.registry_client import RegistryClient
from packager.work_folder import PULL_PREFIX, sweep_partial_files, work_folder

Say = Callable[[str], None]


@dataclass(frozen=True)
class Transfer:
    """What moved: ``sent`` blobs and bytes, and what was there already."""

    digest: str
    sent: int
    sent_bytes: int
    present: int


def push(archive: BundleArchive, client: RegistryClient, tag: str, say: Say) -> Transfer:
    """Raises RegistryFailed, DigestMismatch; requests' errors pass."""
    index = msgspec.json.decode(archive.index_bytes, type=oci.Index)
    manifests = {item.digest for item in index.manifests}
    sent = sent_bytes = present = 0
    for digest, size in archive.bundle.blobs().items():
        if digest in manifests:
            continue
        if client.has_blob(digest):
            present += 1
            continue
        if size >= client.chunk_bytes:
            say(f"sending {digest[:19]} ({size / 1e6:.1f} MB)")
        client.upload(digest, size, archive.blob_chunks(digest))
        sent, sent_bytes = sent + 1, sent_bytes + size
    for item in index.manifests:
        if not client.has_manifest(item.digest):
            client.put_manifest(item.digest, archive.blob(item.digest), item.media_type)
    client.put_manifest(tag, archive.index_bytes, oci.INDEX_MEDIA_TYPE)
    return Transfer(archive.bundle.digest, sent, sent_bytes, present)


def pull(client: RegistryClient, reference: str, output: Path, say: Say) -> Transfer:
    """Fetch a bundle and write it to ``output``, whole or not at all. Raises RegistryFailed, MalformedBundle."""
    index_bytes = client.manifest(reference)
    if reference.startswith("sha256:"):
        described = oci.Descriptor(media_type=oci.INDEX_MEDIA_TYPE, digest=reference, size=len(index_bytes))
        check_blob(index_bytes, described, "bundle index")
    sweep_partial_files(output)
    with work_folder(output.absolute().parent, PULL_PREFIX) as folder:
        small: dict[str, bytes] = {}
        index = msgspec.json.decode(index_bytes, type=oci.Index)
        manifests = {item.digest for item in index.manifests}

        def read_blob(digest: str) -> bytes:
            if digest not in small:
                small[digest] = client.manifest(digest) if digest in manifests else _small(client, digest, folder)
            return small[digest]

        bundle = parse_bundle(index_bytes, read_blob)
        blobs: dict[str, bytes | Path] = {**small, **_weights(client, bundle, small, folder, say)}
        write_bundle(output, index_bytes, blobs)
    sizes = bundle.blobs()
    return Transfer(bundle.digest, len(sizes), sum(sizes.values()), 0)


def _small(client: RegistryClient, digest: str, folder: Path) -> bytes:
    path = folder / digest.removeprefix("sha256:")
    client.download(digest, None, path)
    return path.read_bytes()


def _weights(
    client: RegistryClient, bundle: Bundle, known: dict[str, bytes], folder: Path, say: Say
) -> dict[str, Path]:
    fetched: dict[str, Path] = {}
    for digest, size in bundle.blobs().items():
        if digest in known:
            continue
        say(f"fetching {digest[:19]} ({size / 1e6:.1f} MB)")
        fetched[digest] = folder / digest.removeprefix("sha256:")
        client.download(digest, size, fetched[digest])
    return fetched
