"""Reading a ``.mindie`` file: a tar of an OCI image layout, taken as hostile until shown otherwise.

Only regular members named ``oci-layout``, ``index.json`` and ``blobs/sha256/<64 hex>`` are accepted, each once;
anything else (links, devices, other paths, repeats) refuses the file before a byte of it is used. Nothing is ever
extracted: blobs are read in place by offset.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edge_contracts import oci
from edge_contracts.bundle import MAX_JSON_BYTES, Bundle, parse_bundle
from edge_contracts.errors import DigestMismatch, MalformedBundle

SUFFIX = ".mindie"
CHUNK_BYTES = 1024 * 1024
MAX_MEMBERS = 100_000
_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")


@dataclass(frozen=True)
class Member:
    """Where a member's bytes lie in the file."""

    offset: int
    size: int


@dataclass(frozen=True)
class BundleArchive:
    """An opened bundle file: its path, where each blob lies (by ``sha256:`` digest), and the parsed bundle.

    ``index_bytes`` are the exact bytes of the bundle's index. Blobs of weights have not been read yet: ``verify`` does.
    """

    path: Path
    members: dict[str, Member]
    index_bytes: bytes
    bundle: Bundle

    def blob_chunks(self, digest: str) -> Iterator[bytes]:
        """The blob in chunks of at most 1 MiB, hashed on the way.

        Raises DigestMismatch after the last chunk when the bytes differ, so write to a temporary place until it ends;
        MalformedBundle when the file does not hold the blob.
        """
        member = self.members.get(digest)
        if member is None:
            raise MalformedBundle(str(self.path), f"does not hold blob {digest}")
        sha = hashlib.sha256()
        with self.path.open("rb") as file:
            file.seek(member.offset)
            left = member.size
            while left:
                chunk = file.read(min(left, CHUNK_BYTES))
                if not chunk:
                    raise DigestMismatch(str(self.path), f"cut short inside blob {digest}")
                sha.update(chunk)
                left -= len(chunk)
                yield chunk
        if "sha256:" + sha.hexdigest() != digest:
            raise DigestMismatch(str(self.path), f"blob {digest} has changed bytes")

    def blob(self, digest: str) -> bytes:
        """The whole blob. Raises as blob_chunks does."""
        return b"".join(self.blob_chunks(digest))

    def verify(self) -> None:
        """Read and hash every blob of the bundle, and see that what fills the file up is zero.

        Raises DigestMismatch or MalformedBundle at the first wrong one.
        """
        _check_filling(self.path)
        for digest, size in self.bundle.blobs().items():
            member = self.members.get(digest)
            if member is not None and member.size != size:
                raise DigestMismatch(str(self.path), f"blob {digest} is {member.size} bytes, its manifest says {size}")
            for _ in self.blob_chunks(digest):
                pass


def open_bundle(path: Path) -> BundleArchive:
    """Read the structure of a bundle file (no weights). Raises MalformedBundle naming the file; OSError passes."""
    members, layout, index_member = _scan(path)
    if layout is None or index_member is None:
        raise MalformedBundle(str(path), "is not a MindEdge bundle (no oci-layout or index.json inside)")
    if _read(path, layout, "oci-layout") != oci.LAYOUT_FILE:
        raise MalformedBundle(str(path), f"oci-layout is not {oci.LAYOUT_FILE.decode()}")
    top = _read(path, index_member, "index.json")
    try:
        index = msgspec.json.decode(top, type=oci.Index)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBundle(str(path), f"index.json is not readable: {error}") from error
    if len(index.manifests) != 1:
        raise MalformedBundle(str(path), f"index.json names {len(index.manifests)} bundles, one expected")

    def read_blob(digest: str) -> bytes:
        member = members.get(digest)
        if member is None:
            raise MalformedBundle(str(path), f"does not hold blob {digest}")
        return _read(path, member, digest)

    descriptor = index.manifests[0]
    index_bytes = read_blob(descriptor.digest)
    if top != layout_index(index_bytes):
        raise DigestMismatch(str(path), "index.json has changed bytes")
    try:
        bundle = parse_bundle(index_bytes, read_blob)
    except DigestMismatch as error:
        raise DigestMismatch(str(path), str(error)) from error
    return BundleArchive(path, members, index_bytes, bundle)


def layout_index(index_bytes: bytes) -> bytes:
    """The one form of ``index.json`` that a bundle file has: it names the bundle's index and nothing else."""
    descriptor = oci.describe(index_bytes, oci.INDEX_MEDIA_TYPE, artifact_type=oci.BUNDLE_ARTIFACT_TYPE)
    return oci.canonical_json(oci.Index(schema_version=2, media_type=oci.INDEX_MEDIA_TYPE, manifests=[descriptor]))


def _scan(path: Path) -> tuple[dict[str, Member], Member | None, Member | None]:
    members: dict[str, Member] = {}
    special: dict[str, Member] = {}
    file_size = path.stat().st_size
    try:
        with tarfile.open(path, "r:") as tar:
            for count, info in enumerate(tar):
                if count >= MAX_MEMBERS:
                    raise MalformedBundle(str(path), f"more than {MAX_MEMBERS} members")
                _place(path, info, file_size, members, special)
    except (tarfile.TarError, EOFError, ValueError, UnicodeError, OverflowError) as error:
        raise MalformedBundle(str(path), f"is not a MindEdge bundle or is cut short ({error})") from error
    return members, special.get("oci-layout"), special.get("index.json")


def _check_filling(path: Path) -> None:
    """No digest covers what lies between and after the members. Raises DigestMismatch."""
    members, *special = _scan(path)
    held = sorted(
        (member.offset, member.offset + member.size) for member in [*members.values(), *special] if member is not None
    )
    with path.open("rb") as file:
        for _, end in held:
            file.seek(end)
            _refuse_filled(path, file.read(-end % tarfile.BLOCKSIZE))
        file.seek(held[-1][1] + -held[-1][1] % tarfile.BLOCKSIZE)
        while rest := file.read(CHUNK_BYTES):
            _refuse_filled(path, rest)


def _refuse_filled(path: Path, filling: bytes) -> None:
    if filling.strip(b"\0"):
        raise DigestMismatch(str(path), "has bytes between or after its members: changed, or two files in one")


def _place(
    path: Path, info: tarfile.TarInfo, file_size: int, members: dict[str, Member], special: dict[str, Member]
) -> None:
    if not info.isreg() or info.issparse():
        raise MalformedBundle(str(path), f"member {info.name[:120]!r} is not a plain file")
    if info.size < 0 or info.offset_data + info.size > file_size:
        raise DigestMismatch(str(path), f"cut short inside member {info.name[:120]!r}")
    match = _BLOB.fullmatch(info.name)
    table, key = (members, f"sha256:{match.group(1)}") if match else (special, info.name)
    if not match and info.name not in ("oci-layout", "index.json"):
        raise MalformedBundle(str(path), f"member {info.name[:120]!r} does not belong in a bundle")
    if key in table:
        raise MalformedBundle(str(path), f"member {info.name[:120]!r} appears twice")
    table[key] = Member(info.offset_data, info.size)


def _read(path: Path, member: Member, name: str) -> bytes:
    if member.size > MAX_JSON_BYTES:
        raise MalformedBundle(str(path), f"{name} has {member.size} bytes; at most {MAX_JSON_BYTES} of JSON are read")
    with path.open("rb") as file:
        file.seek(member.offset)
        data = file.read(member.size)
    if len(data) != member.size:
        raise DigestMismatch(str(path), f"cut short inside {name}")
    return data
