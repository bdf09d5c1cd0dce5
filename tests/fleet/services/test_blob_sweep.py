from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from edge_contracts import oci
from edge_contracts.archive import BundleArchive, open_bundle
from edge_contracts.deployment import DeploymentState
from edge_contracts.messages import ActiveModel, BundleRef, Policy, Reported, ReportedModel
from fleet.domain.rollout import RolloutState
from fleet.domain.wish import Wish
from fleet.errors import RegistryError
from fleet.registry.blob_store import BlobStore
from fleet.services.blob_sweep import GRACE_S, BlobSweep
from fleet.services.bundles import Bundles
from fleet.store.memory import MemoryStore
from fleet.store.sql.unit_of_work import SqlStore
from fleet.store.unit_of_work import Store
from tests.simulators.bundle_factory import stub_bundle
from tests.suites.store_suite import DEVICE, ROLLOUT, save

LONG_AGO_S = 2 * GRACE_S


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    made = BlobStore(tmp_path / "registry", os.urandom)
    made.open()
    return made


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path / 'fleet.db'}")
    made.open()
    return made


@pytest.fixture
def bundle(blobs: BlobStore, tmp_path: Path) -> BundleArchive:
    return pushed(blobs, tmp_path, "1.0.0")


def pushed(blobs: BlobStore, folder: Path, version: str) -> BundleArchive:
    archive = open_bundle(stub_bundle(folder / f"{version}.mindie", name="digits", version=version))
    for digest in archive.bundle.blobs():
        blobs.put_small(archive.blob(digest), digest)
    blobs.put_small(archive.index_bytes, archive.bundle.digest)
    blobs.set_tag("digits", version, archive.bundle.digest)
    age(blobs)
    return archive


def age(blobs: BlobStore) -> None:
    """All that is there was last asked for long ago."""
    for path in (*blobs._blobs.iterdir(), *blobs._uploads.iterdir()):
        os.utime(path, (time.time() - LONG_AGO_S,) * 2)


def is_whole(blobs: BlobStore, archive: BundleArchive) -> bool:
    wanted = {archive.bundle.digest, *archive.bundle.blobs()}
    return wanted <= {f"sha256:{path.name}" for path in blobs._blobs.iterdir()}


def sweep(store: Store, blobs: BlobStore) -> int:
    return BlobSweep(store, blobs, lambda: time.time_ns() // 1_000_000).sweep()


def test_what_nothing_names_goes_with_its_tag_and_what_is_registered_stays_whole(
    store: Store, blobs: BlobStore, bundle: BundleArchive, tmp_path: Path
) -> None:
    Bundles(store, blobs, lambda: 1).register("digits", bundle.bundle.digest, allow_unsigned=True)
    other = pushed(blobs, tmp_path, "2.0.0")
    own = {other.bundle.digest, *other.bundle.blobs()} - {bundle.bundle.digest, *bundle.bundle.blobs()}
    assert sweep(store, blobs) == len(own) > 0
    assert is_whole(blobs, bundle)
    assert blobs.tags("digits") == ["1.0.0"]
    age(blobs)
    assert sweep(store, blobs) == 0


def reports(**model: object) -> object:
    entry = ReportedModel(deployment="d", state=DeploymentState.COMMITTED, **model)  # type: ignore[arg-type]
    return msgspec.structs.replace(DEVICE, reported=Reported(version=1, session=1, models={"digits": entry}))


def active(digest: str) -> ActiveModel:
    return ActiveModel(version="1.0.0", digest=digest, variant="v", runtime="stub", precision="fp32")


@pytest.mark.parametrize("by", ["wish", "open rollout", "active report", "last good"])
def test_a_bundle_in_use_stays_whole_though_it_is_not_registered(
    store: Store, blobs: BlobStore, bundle: BundleArchive, by: str
) -> None:
    digest = bundle.bundle.digest
    kind, record = {
        "wish": ("wishes", Wish(device="d", model="m", deployment="x", version="1", digest=digest, policy=Policy())),
        "open rollout": ("rollouts", msgspec.structs.replace(ROLLOUT, digest=digest, state=RolloutState.PAUSED)),
        "active report": ("devices", reports(active=active(digest))),
        "last good": ("devices", reports(last_good=BundleRef(version="1.0.0", digest=digest))),
    }[by]
    save(store, kind, record)
    assert sweep(store, blobs) == 0
    assert is_whole(blobs, bundle)


def test_a_device_that_reports_nonsense_opens_no_file_and_stops_no_sweep(store: Store, blobs: BlobStore) -> None:
    blobs.put_small(b"{}", oci.sha256_digest(b"{}"))
    blobs.put_small(b"garbage", oci.sha256_digest(b"garbage"))
    age(blobs)
    refs = [oci.sha256_digest(b"{}"), "sha256:../../fleet.db", "", oci.sha256_digest(b"never here")]
    entries = {str(n): ReportedModel(deployment=None, state=DeploymentState.COMMITTED, active=active(d))
               for n, d in enumerate(refs)}  # fmt: skip
    save(store, "devices", msgspec.structs.replace(DEVICE, reported=Reported(version=1, session=1, models=entries)))
    assert sweep(store, blobs) == 1
    assert blobs.size(oci.sha256_digest(b"{}")) == 2


def test_nothing_goes_while_a_bundle_in_use_cannot_be_read(
    store: Store, blobs: BlobStore, bundle: BundleArchive
) -> None:
    odd = b'{"schemaVersion":9}'
    blobs.put_small(odd, oci.sha256_digest(odd))
    save(store, "rollouts", msgspec.structs.replace(ROLLOUT, digest=oci.sha256_digest(odd)))
    age(blobs)
    with pytest.raises(RegistryError, match="is in use, but"):
        sweep(store, blobs)
    assert is_whole(blobs, bundle)


def test_a_push_in_progress_keeps_what_it_sent_and_what_it_found_to_be_there(
    store: Store, blobs: BlobStore, bundle: BundleArchive
) -> None:
    upload, abandoned = blobs.begin_upload(), blobs.begin_upload()
    age(blobs)
    os.utime(blobs.upload_path(upload))
    asked = [digest for digest in bundle.bundle.blobs() if blobs.size(digest) is not None]
    assert sweep(store, blobs) == 1
    assert [path.name for path in blobs._uploads.iterdir()] == [upload] != [abandoned]
    assert all(blobs.size(digest) is not None for digest in asked)


def test_the_registry_is_not_looked_through_at_every_call(
    store: Store, blobs: BlobStore, bundle: BundleArchive
) -> None:
    now_ms = time.time_ns() // 1_000_000
    swept = BlobSweep(store, blobs, lambda: now_ms)
    assert swept.sweep() > 0
    blobs.put_small(b"more", oci.sha256_digest(b"more"))
    age(blobs)
    assert swept.sweep() == 0
    now_ms += 7 * 3_600_000
    assert swept.sweep() == 1
