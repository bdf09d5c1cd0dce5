from __future__ import annotations

from pathlib import Path

import pytest

from agent.inference.bundle_folder import lay_out, open_bundle_folder
from edge_contracts.archive import open_bundle
from edge_contracts.errors import DigestMismatch, MalformedBundle
from edge_contracts.golden import decode_goldens
from tests.simulators import bundle_factory


def test_a_laid_out_bundle_is_the_bundle_of_the_archive(tmp_path: Path) -> None:
    archive = open_bundle(bundle_factory.stub_bundle(tmp_path / "a.mindie"))
    lay_out(archive, tmp_path / "folder")
    folder = open_bundle_folder(tmp_path / "folder")
    assert folder.bundle.digest == archive.bundle.digest
    assert [variant.name for variant in folder.variants_present()] == ["stub-fp32-cpu"]
    assert len(decode_goldens(folder.goldens_file.read_bytes())) == 8


def test_only_the_asked_variants_are_laid_out(tmp_path: Path) -> None:
    archive = open_bundle(bundle_factory.mixed_bundle(tmp_path / "a.mindie", {"one": {}, "two": {}}))
    folder = lay_out(archive, tmp_path / "folder", ["two"])
    assert [variant.name for variant in folder.variants_present()] == ["two"]
    with pytest.raises(MalformedBundle, match="three"):
        lay_out(archive, tmp_path / "other", ["three"])


def test_a_changed_weight_byte_leaves_no_folder(tmp_path: Path) -> None:
    path = bundle_factory.stub_bundle(tmp_path / "a.mindie")
    archive = open_bundle(path)
    weight = archive.bundle.variants[0].files[0].digest
    data = bytearray(path.read_bytes())
    data[archive.members[weight].offset + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(DigestMismatch):
        lay_out(open_bundle(path), tmp_path / "folder")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.mindie"]


def test_an_existing_folder_is_never_touched(tmp_path: Path) -> None:
    archive = open_bundle(bundle_factory.stub_bundle(tmp_path / "a.mindie"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileExistsError):
        lay_out(archive, tmp_path / "folder")


def test_a_damaged_bundle_keeps_the_goldens_and_changes_every_other_digest(tmp_path: Path) -> None:
    good = open_bundle(bundle_factory.stub_bundle(tmp_path / "good.mindie"))
    bad = open_bundle(bundle_factory.stub_bundle(tmp_path / "bad.mindie", damaged=True))
    bad.verify()
    assert bad.bundle.goldens.digest == good.bundle.goldens.digest
    assert bad.bundle.digest != good.bundle.digest
    assert bad.bundle.variants[0].digest != good.bundle.variants[0].digest


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(MalformedBundle, match="laid-out bundle"):
        open_bundle_folder(tmp_path)
