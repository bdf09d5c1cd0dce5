from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import UpdateError
from agent.update.records import Wish
from agent.update.slots import Slots
from agent.update.verification import NoTrust, VerifiedBundle, admit, verify
from edge_contracts.bundle import Bundle, Variant
from edge_contracts.messages import Policy
from tests.simulators import bundle_factory
from tests.simulators.update_rig import Rig


class Signed(NoTrust):
    def is_signed(self, name: str, digest: str) -> bool:
        return True


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path / "data")
    rig.boot()
    rig.install(bundle_factory.stub_bundle(tmp_path / "a.mindie"), "d1")
    return rig


def everything(bundle: Bundle) -> list[Variant]:
    return bundle.variants


def wish_of(rig: Rig, **changes: str) -> Wish:
    active = rig.model().active
    assert active is not None
    return Wish(**{"deployment": "d", "version": active.version, "digest": active.digest, **changes})  # type: ignore[arg-type]


def test_a_verified_bundle_is_made_nowhere_else(rig: Rig) -> None:
    verified = verify(rig.slots, "affine", wish_of(rig), False, everything)
    with pytest.raises(TypeError):
        VerifiedBundle(object(), verified.bundle, verified.index_bytes, verified.variants, True)


def test_a_signed_bundle_needs_no_permission() -> None:
    wish = Wish(deployment="d", version="1.0.0", digest="sha256:" + "0" * 64)
    assert admit("digits", wish, Signed(), allow_unsigned=False)
    with pytest.raises(UpdateError) as caught:
        admit("digits", wish, NoTrust(), allow_unsigned=False)
    assert caught.value.code == "unsigned"
    assert not admit("digits", wish, NoTrust(), allow_unsigned=True)


def test_the_policy_may_allow_unsigned() -> None:
    wish = Wish(deployment="d", version="1.0.0", digest="sha256:" + "0" * 64, policy=Policy(allow_unsigned=True))
    assert not admit("digits", wish, NoTrust(), allow_unsigned=False)


@pytest.mark.parametrize(("name", "version"), [("other", "1.0.0"), ("affine", "9.9.9")])
def test_a_bundle_that_is_not_what_was_wished_for_is_refused(rig: Rig, name: str, version: str) -> None:
    with pytest.raises(UpdateError, match=r"wished for|expected") as caught:
        verify(rig.slots, name, wish_of(rig, version=version), False, everything)
    assert caught.value.code == "digest"


def test_a_blob_that_changed_on_the_disk_is_refused_and_dropped(rig: Rig) -> None:
    wish = wish_of(rig)
    weight = rig.slots.folder("affine", str(wish.digest)).bundle.variants[0].files[0].digest
    path = rig.slots.blob_path(weight)
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.unlink()
    path.write_bytes(data)
    fresh = Slots(rig.config.data_dir, rig.disk)  # a new process: nothing has been hashed in it
    with pytest.raises(UpdateError, match="differ from the digest"):
        verify(fresh, "affine", wish, False, everything)
    assert not fresh.has(weight)
