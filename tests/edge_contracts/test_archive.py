from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge_contracts.archive import open_bundle
from edge_contracts.errors import DigestMismatch, MalformedBundle, UnknownFormat
from tests.edge_contracts.bundle_bytes import WEIGHTS, write_a_bundle


def test_a_bundle_reads_back_with_its_variant_and_goldens(tmp_path: Path) -> None:
    archive = open_bundle(write_a_bundle(tmp_path / "m.mindie"))
    archive.verify()
    variant = archive.bundle.variant("onnxruntime-fp32-cpu")
    assert variant is not None
    assert archive.blob(variant.files[0].digest) == WEIGHTS
    assert archive.bundle.goldens.digest in archive.members


def test_the_same_content_gives_the_same_bytes_whatever_the_folder_and_time(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    first, second = write_a_bundle(tmp_path / "a.mindie"), write_a_bundle(tmp_path / "elsewhere" / "b.mindie")
    assert first.read_bytes() == second.read_bytes()


def test_a_changed_byte_anywhere_is_refused(tmp_path: Path) -> None:
    original = write_a_bundle(tmp_path / "m.mindie").read_bytes()
    changed = tmp_path / "changed.mindie"
    kept: list[int] = []
    for at in range(0, len(original), 37):
        data = bytearray(original)
        data[at] ^= 0x55
        changed.write_bytes(data)
        try:
            open_bundle(changed).verify()
        except MalformedBundle:
            continue
        kept.append(at)
    assert kept == [], f"bytes {kept} may be changed without notice"


def test_bytes_after_the_last_member_are_refused(tmp_path: Path) -> None:
    bundle = write_a_bundle(tmp_path / "m.mindie")
    bundle.write_bytes(bundle.read_bytes() + b"more")
    with pytest.raises(DigestMismatch, match="after its members"):
        open_bundle(bundle).verify()


@given(cut=st.integers(0, 20_000))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bundle_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    original = write_a_bundle(tmp_path / "m.mindie").read_bytes()
    content_end = len(original.rstrip(b"\0"))
    short = tmp_path / "short.mindie"
    short.write_bytes(original[: min(cut, content_end - 1)])
    with pytest.raises(MalformedBundle):
        open_bundle(short).verify()


@given(st.binary(max_size=3000))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_bundle_or_are_refused_as_one(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.mindie"
    path.write_bytes(data)
    with pytest.raises(MalformedBundle, match=r"any\.mindie"):
        open_bundle(path)


_TYPES = {
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "device": tarfile.CHRTYPE,
    "fifo": tarfile.FIFOTYPE,
    "directory": tarfile.DIRTYPE,
}


def _hostile(kind: str) -> Callable[[tarfile.TarFile], None]:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("../escaped")
        if kind == "absolute":
            info.name = "/tmp/escaped"
        elif kind in _TYPES:
            info.name = "blobs/sha256/" + "0" * 64
            info.linkname = "/etc/passwd"
            info.type = _TYPES[kind]
        elif kind == "duplicate":
            info.name = "index.json"
        elif kind == "foreign":
            info.name = "run-me.sh"
        info.size = 3 if info.isreg() else 0
        tar.addfile(info, io.BytesIO(b"abc"))

    return add


@pytest.mark.parametrize(
    "kind", ["dotdot", "absolute", "symlink", "hardlink", "device", "fifo", "directory", "duplicate", "foreign"]
)
def test_a_hostile_member_refuses_the_whole_file(tmp_path: Path, kind: str) -> None:
    path = write_a_bundle(tmp_path / "m.mindie")
    with tarfile.open(path, "a") as tar:
        _hostile(kind)(tar)
    with pytest.raises(MalformedBundle, match="member"):
        open_bundle(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.mindie"]


@pytest.mark.parametrize("file_path", ["../m.onnx", "/m.onnx", "a/b", "..", "", "a\\b", "x" * 201])
def test_a_weight_file_name_that_leaves_its_folder_is_refused(tmp_path: Path, file_path: str) -> None:
    with pytest.raises(MalformedBundle, match="file name"):
        open_bundle(write_a_bundle(tmp_path / "m.mindie", file_path=file_path))


@pytest.mark.parametrize(
    "variant", ["/etc/cron.d", "../../../root/.ssh", "..", ".", "", "a/b", "a\\b", "x" * 101, "a\0b"]
)
def test_a_variant_name_that_leaves_the_bundles_folder_is_refused(tmp_path: Path, variant: str) -> None:
    with pytest.raises(MalformedBundle, match="variant name"):
        open_bundle(write_a_bundle(tmp_path / "m.mindie", variant=variant))


def test_a_newer_format_is_refused_naming_the_version(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match="format version 7"):
        open_bundle(write_a_bundle(tmp_path / "m.mindie", format_version=7))


def test_a_bundle_with_a_name_that_is_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedBundle, match="name"):
        open_bundle(write_a_bundle(tmp_path / "m.mindie", name="../../etc"))


def test_a_blob_that_lies_about_its_digest_is_found_while_reading(tmp_path: Path) -> None:
    path = write_a_bundle(tmp_path / "m.mindie")
    data = path.read_bytes()
    path.write_bytes(data.replace(WEIGHTS, WEIGHTS[::-1]))
    archive = open_bundle(path)
    with pytest.raises(DigestMismatch, match="changed bytes"):
        archive.verify()
