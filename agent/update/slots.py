"""Where bundles lie on the device, and what must not be thrown away.

    DATA/blobs/sha256/<hex>                  blobs, each whole and hashed before it got this name
    DATA/downloads/<hex>.part (+ .json)      blobs on their way (agent.update.download)
    DATA/models/NAME/bundles/<hex12>/        laid-out bundles (agent.inference.bundle_folder), linked to the blobs

Pinned are the bundles that are active, last good or in flight: collect() never touches these.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from agent.disk import Disk, make_private
from agent.inference.bundle_folder import BundleFolder, open_bundle_folder
from agent.update.records import DeviceState
from edge_contracts import oci
from edge_contracts.bundle import Bundle, Variant
from edge_contracts.errors import ContractError, DigestMismatch, MalformedBundle
from edge_contracts.names import bundle_name, digest

CHUNK_BYTES = 1024 * 1024


class Slots:
    """Blobs and laid-out bundles below one data folder. One writer, which holds DATA/lock; anybody may read."""

    def __init__(self, data_dir: Path, disk: Disk) -> None:
        self._blobs = data_dir / "blobs" / "sha256"
        self._models = data_dir / "models"
        self.downloads = data_dir / "downloads"
        self._disk = disk
        self._hashed: set[str] = set()

    def blob_path(self, blob: str) -> Path:
        """Where a blob lies when it is here. Raises MalformedMessage for what is no digest."""
        return self._blobs / digest(blob).removeprefix("sha256:")

    def has(self, blob: str, size: int | None = None) -> bool:
        """Whether the blob is here, with that size where given."""
        try:
            actual = self.blob_path(blob).stat().st_size
        except OSError:
            return False
        return size is None or size == actual

    def read(self, blob: str) -> bytes:
        """A small blob. Raises MalformedBundle when it is not here, DigestMismatch when its bytes have changed."""
        try:
            data = self.blob_path(blob).read_bytes()
        except OSError as error:
            raise MalformedBundle(blob, f"is not in the blob store: {error.strerror}") from error
        if oci.sha256_digest(data) != blob:
            raise DigestMismatch(blob, "bytes on this device have changed")
        return data

    def add(self, blob: str, built: Path, *, hashed: bool) -> None:
        """Take over a finished file as the blob. ``hashed``: the caller has just hashed these bytes."""
        target = self.blob_path(blob)
        if target.exists():
            self._disk.remove(target)
        self._disk.publish(built, target)
        if hashed:
            self._hashed.add(blob)

    def check(self, blob: str, size: int) -> None:
        """Hash the blob unless this process did. Raises DigestMismatch (and drops it), MalformedBundle if missing."""
        if blob in self._hashed and self.has(blob, size):
            return
        path = self.blob_path(blob)
        sha = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    sha.update(chunk)
            actual_size = path.stat().st_size
        except OSError as error:
            raise MalformedBundle(blob, f"is not in the blob store: {error.strerror}") from error
        if "sha256:" + sha.hexdigest() != blob or actual_size != size:
            self._disk.remove(path)
            raise DigestMismatch(blob, "bytes on this device differ from the digest: fetch it again")
        self._hashed.add(blob)

    def folder_path(self, name: str, bundle_digest: str) -> Path:
        """Where a laid-out bundle lies when it is here."""
        short = digest(bundle_digest).removeprefix("sha256:")[:12]
        return self._models / bundle_name(name) / "bundles" / short

    def folder(self, name: str, bundle_digest: str) -> BundleFolder:
        """A laid-out bundle. Raises MalformedBundle when it is not here."""
        found = open_bundle_folder(self.folder_path(name, bundle_digest))
        if found.bundle.digest != bundle_digest:
            raise DigestMismatch(str(found.folder), f"holds another bundle than {bundle_digest}")
        return found

    def intact(self, name: str, bundle_digest: str, variant: str) -> BundleFolder:
        """A laid-out bundle of which that variant's files are hashed, once per process: cards rot while it is off.

        Raises MalformedBundle when it is not here, DigestMismatch when bytes have changed; it is removed then, with
        those blobs, so that the same bundle can be fetched anew.
        """
        found = self.folder(name, bundle_digest)
        files = next((one.files for one in found.bundle.variants if one.name == variant), [])
        for file in files:
            if file.digest in self._hashed:
                continue
            if _hash_of(found.variant_folder(variant) / file.path) != file.digest:
                with contextlib.suppress(OSError):  # a card that takes no writes: it is found damaged again next time
                    self._disk.remove(found.folder)
                    self._disk.remove(self.blob_path(file.digest))
                raise DigestMismatch(f"{name}: {variant}/{file.path}", "bytes on this device have changed")
            self._hashed.add(file.digest)
        return found

    def lay_out(self, bundle: Bundle, index_bytes: bytes, variants: Iterable[Variant]) -> BundleFolder:
        """Make the bundle's folder from blobs that are here, with these variants; one that has them all is kept.

        It appears whole or not at all, also over a power cut. Raises OSError, MalformedBundle.
        """
        chosen = list(variants)
        target = self.folder_path(bundle.spec.name, bundle.digest)
        if self._is_laid_out(bundle, chosen):
            return BundleFolder(target, bundle)
        building = target.with_name(f".{target.name}.tmp")
        shutil.rmtree(building, ignore_errors=True)
        try:
            self._fill(building, bundle, index_bytes, chosen)
            self._disk.remove(target)
            self._disk.publish(building, target)
        except OSError:
            shutil.rmtree(building, ignore_errors=True)
            raise
        return BundleFolder(target, bundle)

    def collect(self, state: DeviceState) -> None:
        """Delete what no model pins: bundle folders, then blobs and downloads that no pinned bundle needs."""
        pinned = pins(state)
        needed: set[str] = set()
        for folder in self._models.glob("*/bundles/*"):
            owner = folder.parent.parent.name
            if any(owner == name and folder == self._path_or_none(name, wanted) for name, wanted in pinned):
                needed |= _blobs_of(folder)
            else:
                self._disk.remove(folder)
        if any(model.deployment is not None and model.deployment.in_flight for model in state.models.values()):
            return  # what a deployment in flight needs is not known before its index is here
        keep = {blob.removeprefix("sha256:") for blob in needed}
        for path in list(self._blobs.glob("*")):
            if path.name not in keep:
                self._disk.remove(path)
        self.drop_downloads()

    def drop_downloads(self) -> None:
        """Throw away what is half fetched."""
        for path in list(self.downloads.glob("*")):
            path.unlink(missing_ok=True)

    def _path_or_none(self, name: str, bundle_digest: str) -> Path | None:
        try:
            return self.folder_path(name, bundle_digest)
        except ContractError:
            return None

    def _is_laid_out(self, bundle: Bundle, variants: list[Variant]) -> bool:
        try:
            present = {variant.name for variant in self.folder(bundle.spec.name, bundle.digest).variants_present()}
        except ContractError:
            return False
        return {variant.name for variant in variants} <= present

    def _fill(self, building: Path, bundle: Bundle, index_bytes: bytes, variants: list[Variant]) -> None:
        metadata = building / "metadata"
        make_private(metadata)
        (building / "index.json").write_bytes(index_bytes)
        for blob in {blob.digest for blob in bundle.metadata_blobs}:
            self._disk.link(self.blob_path(blob), metadata / blob.removeprefix("sha256:"))
        self._disk.link(self.blob_path(bundle.goldens.digest), building / "goldens.bin")
        for variant in variants:
            place = building / "variants" / variant.name
            make_private(place)
            for file in variant.files:
                self._disk.link(self.blob_path(file.digest), place / file.path)


def _hash_of(path: Path) -> str | None:
    """None: it cannot be read."""
    sha = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha.update(chunk)
    except OSError:
        return None
    return f"sha256:{sha.hexdigest()}"


def pins(state: DeviceState) -> set[tuple[str, str]]:
    """(model, bundle digest) of what is active, last good or in flight."""
    pinned: set[tuple[str, str]] = set()
    for name, model in state.models.items():
        pinned |= {(name, kept.digest) for kept in (model.active, model.last_good) if kept is not None}
        if model.deployment is not None and model.deployment.in_flight and model.deployment.wish.digest is not None:
            pinned.add((name, model.deployment.wish.digest))
    return pinned


def _blobs_of(folder: Path) -> set[str]:
    try:
        bundle = open_bundle_folder(folder).bundle
    except ContractError:
        return set()
    return {bundle.digest, *bundle.blobs()}
